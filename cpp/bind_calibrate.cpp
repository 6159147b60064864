// Border to Python of calibrate.hpp.
#include "binding.hpp"
#include "calibrate.hpp"

using namespace tagwood;

namespace {

Out<float> py_calibrate(In<float> scores, bool as_odds, In<double> x, In<double> y) {
  if (x.shape(0) < 1 || x.shape(0) != y.shape(0))
    throw nb::value_error("calibrate: a curve needs as many x as y, at least one");
  const int64_t n = static_cast<int64_t>(scores.shape(0));
  Filled<float> out(n);
  {
    nb::gil_scoped_release release;
    calibrate({x.data(), y.data(), static_cast<int64_t>(x.shape(0))}, scores.data(), n, as_odds, out.data());
  }
  return out.give();
}

} // namespace

namespace tagwood {

void bind_calibrate(nb::module_ &m) {
  m.def("calibrate", &py_calibrate, nb::arg("scores").noconvert(), nb::arg("as_odds"), nb::arg("x").noconvert(),
        nb::arg("y").noconvert());
}

} // namespace tagwood
