// Border to Python of text_rows.hpp.
#include "binding.hpp"
#include "text_rows.hpp"

using namespace tagwood;

namespace {

// label ends, labels, feature ends, features, values, (consumed, problem, place of the problem)
using RowsOut = std::tuple<Out<int64_t>, Out<int32_t>, Out<int64_t>, Out<int32_t>, Out<float>,
                           std::tuple<int64_t, int32_t, int64_t>>;

RowsOut py_parse_rows(In<uint8_t> text, bool last, int64_t max_rows, int64_t n_labels, int64_t n_features) {
  ParsedRows rows;
  {
    nb::gil_scoped_release release;
    parse_rows(reinterpret_cast<const char *>(text.data()), static_cast<int64_t>(text.shape(0)), last, max_rows,
               n_labels, n_features, rows);
  }
  return {own(std::move(rows.label_ends)),   own(std::move(rows.labels)),
          own(std::move(rows.feature_ends)), own(std::move(rows.features)),
          own(std::move(rows.values)),       {rows.consumed, static_cast<int32_t>(rows.problem), rows.problem_at}};
}

} // namespace

namespace tagwood {

void bind_text_rows(nb::module_ &m) {
  using nb::arg;
  m.def("parse_rows", &py_parse_rows, arg("text").noconvert(), arg("last"), arg("max_rows"), arg("n_labels"),
        arg("n_features"));
}

} // namespace tagwood
