// Border to Python of merge.hpp.
#include "binding.hpp"
#include "merge.hpp"

using namespace tagwood;

namespace {

using Places = std::tuple<Out<int32_t>, Out<float>, Out<int32_t>>;

Places py_merge_lists(In<int32_t> labels, In<float> scores, In<int32_t> found, int64_t n_lists, int k, int threads) {
  const int64_t n_rows = n_lists > 0 ? static_cast<int64_t>(found.shape(0)) / n_lists : 0;
  const int64_t width = n_rows > 0 ? static_cast<int64_t>(labels.shape(0)) / (n_lists * n_rows) : 0;
  if (n_lists < 1 || k < 1 || static_cast<int64_t>(found.shape(0)) != n_lists * n_rows ||
      static_cast<int64_t>(labels.shape(0)) != n_lists * n_rows * width || scores.shape(0) != labels.shape(0))
    throw nb::value_error("merge_lists: labels, scores and found do not fit together");
  Filled<int32_t> out_labels(n_rows * k), out_found(n_rows);
  Filled<float> out_scores(n_rows * k);
  {
    nb::gil_scoped_release release;
    merge_lists({labels.data(), scores.data(), found.data(), n_lists, n_rows, width}, k, threads, out_labels.data(),
                out_scores.data(), out_found.data());
  }
  return {out_labels.give(), out_scores.give(), out_found.give()};
}

} // namespace

namespace tagwood {

void bind_merge(nb::module_ &m) {
  m.def("merge_lists", &py_merge_lists, nb::arg("labels").noconvert(), nb::arg("scores").noconvert(),
        nb::arg("found").noconvert(), nb::arg("n_lists"), nb::arg("k"), nb::arg("threads"));
}

} // namespace tagwood
