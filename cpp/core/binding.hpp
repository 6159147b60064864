// Array types that cross the Python boundary. Included by the bind.cpp files only.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/arrays.hpp"

namespace tagwood {

namespace nb = nanobind;

template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>, nb::c_contig>;

template <class Array> int64_t size_of(const Array &array) { return static_cast<int64_t>(array.shape(0)); }

inline CsrView view(const In<int64_t> &indptr, const In<int32_t> &indices, const In<float> &data, int64_t n_cols) {
  return {indptr.data(), indices.data(), data.data(), static_cast<int64_t>(indptr.shape(0)) - 1, n_cols};
}

inline bool all_within(const In<int32_t> &ids, int64_t low, int64_t high) { // low <= id < high
  return std::all_of(ids.data(), ids.data() + ids.shape(0), [&](int32_t id) { return id >= low && id < high; });
}

// Gives a C++ vector to NumPy without a copy.
template <class T> Out<T> own(std::vector<T> &&values) {
  auto *held = new std::vector<T>(std::move(values));
  nb::capsule owner(held, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
  return Out<T>(held->data(), {held->size()}, owner);
}

// An uninitialised array of n items for a kernel to fill.
template <class T> struct Filled {
  std::unique_ptr<T[]> items;
  size_t size;
  explicit Filled(size_t n) : items(new T[n]), size(n) {}
  T *data() { return items.get(); }
  Out<T> give() {
    T *raw = items.release();
    nb::capsule owner(raw, [](void *p) noexcept { delete[] static_cast<T *>(p); });
    return Out<T>(raw, {size}, owner);
  }
};

} // namespace tagwood
