// Border to Python of claims.hpp.
#include "binding.hpp"
#include "claims.hpp"

using namespace tagwood;

namespace {

Out<uint8_t> py_serve_claims(In<int32_t> labels, In<int32_t> leaves, int32_t copies, int64_t n_labels,
                             In<int64_t> room) {
  const int64_t n = static_cast<int64_t>(labels.shape(0)), n_leaves = static_cast<int64_t>(room.shape(0));
  if (static_cast<int64_t>(leaves.shape(0)) != n || !all_within(labels, 0, n_labels) ||
      !all_within(leaves, 0, n_leaves))
    throw nb::value_error("serve_claims: labels and leaves do not fit together");
  Filled<uint8_t> served(n);
  {
    nb::gil_scoped_release release;
    serve_claims({labels.data(), leaves.data(), n}, copies, n_labels, {room.data(), room.data() + n_leaves},
                 served.data());
  }
  return served.give();
}

} // namespace

namespace tagwood {

void bind_claims(nb::module_ &m) {
  m.def("serve_claims", &py_serve_claims, nb::arg("labels").noconvert(), nb::arg("leaves").noconvert(),
        nb::arg("copies"), nb::arg("n_labels"), nb::arg("room").noconvert());
}

} // namespace tagwood
