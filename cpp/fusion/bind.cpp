// Python bindings of the kernels in fusion/.
#include "core/binding.hpp"
#include "fusion/boosted.hpp"

namespace tagwood {

namespace {

Out<double> py_boosted_sums(In<int64_t> roots, In<int32_t> feature, In<double> threshold, In<int32_t> left,
                            In<int32_t> right, In<uint8_t> missing_left, In<double> value, In<float> rows,
                            int64_t n_features, double start, int threads) {
  const int64_t n_nodes = size_of(feature);
  if (n_features < 1 || size_of(rows) % n_features || size_of(threshold) != n_nodes || size_of(left) != n_nodes ||
      size_of(right) != n_nodes || size_of(missing_left) != n_nodes || size_of(value) != n_nodes)
    throw nb::value_error("boosted_sums: the arrays do not fit together");
  const int64_t n_rows = size_of(rows) / n_features;
  Filled<double> out(n_rows);
  {
    nb::gil_scoped_release release;
    const BoostedView trees{roots.data(), size_of(roots), feature.data(),      threshold.data(),
                            left.data(),  right.data(),   missing_left.data(), value.data()};
    boosted_sums(trees, rows.data(), n_rows, n_features, start, threads, out.data());
  }
  return out.give();
}

} // namespace

void bind_fusion(nb::module_ &m) {
  using nb::arg;
  m.def("boosted_sums", &py_boosted_sums, arg("roots").noconvert(), arg("feature").noconvert(),
        arg("threshold").noconvert(), arg("left").noconvert(), arg("right").noconvert(),
        arg("missing_left").noconvert(), arg("value").noconvert(), arg("rows").noconvert(), arg("n_features"),
        arg("start"), arg("threads"));
}

} // namespace tagwood
