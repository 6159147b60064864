// Border to Python of match.hpp.
#include "binding.hpp"
#include "match.hpp"

using namespace tagwood;

namespace {

LabelRows rows_of(const In<int64_t> &indptr, const In<int32_t> &labels) {
  return {indptr.data(), labels.data(), static_cast<int64_t>(indptr.shape(0)) - 1};
}

Gains gains_of(const In<double> &weights, const In<double> &discounts, const In<int64_t> &cutoffs) {
  return {weights.data(), discounts.data(), {cutoffs.data(), cutoffs.shape(0)}};
}

bool py_rows_distinct(In<int64_t> indptr, In<int32_t> labels) {
  nb::gil_scoped_release release;
  return rows_distinct(rows_of(indptr, labels));
}

Out<uint8_t> py_match_rows(In<int64_t> true_indptr, In<int32_t> true_labels, In<int64_t> indptr, In<int32_t> labels,
                           int threads) {
  Filled<uint8_t> hits(labels.shape(0));
  {
    nb::gil_scoped_release release;
    match_rows(rows_of(true_indptr, true_labels), rows_of(indptr, labels), threads, hits.data());
  }
  return hits.give();
}

Out<double> py_ranked_gains(In<int64_t> indptr, In<int32_t> labels, In<uint8_t> hits, In<double> weights,
                            In<double> discounts, In<int64_t> cutoffs, int threads) {
  const LabelRows ranked = rows_of(indptr, labels);
  Filled<double> out(ranked.n_rows * cutoffs.shape(0));
  {
    nb::gil_scoped_release release;
    ranked_gains(ranked, hits.data(), gains_of(weights, discounts, cutoffs), threads, out.data());
  }
  return out.give();
}

Out<double> py_best_gains(In<int64_t> true_indptr, In<int32_t> true_labels, In<double> weights, In<double> discounts,
                          In<int64_t> cutoffs, int threads) {
  const LabelRows truth = rows_of(true_indptr, true_labels);
  Filled<double> out(truth.n_rows * cutoffs.shape(0));
  {
    nb::gil_scoped_release release;
    best_gains(truth, gains_of(weights, discounts, cutoffs), threads, out.data());
  }
  return out.give();
}

} // namespace

namespace tagwood {

void bind_match(nb::module_ &m) {
  using nb::arg;
  m.def("rows_distinct", &py_rows_distinct, arg("indptr").noconvert(), arg("labels").noconvert());
  m.def("match_rows", &py_match_rows, arg("true_indptr").noconvert(), arg("true_labels").noconvert(),
        arg("indptr").noconvert(), arg("labels").noconvert(), arg("threads"));
  m.def("ranked_gains", &py_ranked_gains, arg("indptr").noconvert(), arg("labels").noconvert(), arg("hits").noconvert(),
        arg("weights").noconvert(), arg("discounts").noconvert(), arg("cutoffs").noconvert(), arg("threads"));
  m.def("best_gains", &py_best_gains, arg("true_indptr").noconvert(), arg("true_labels").noconvert(),
        arg("weights").noconvert(), arg("discounts").noconvert(), arg("cutoffs").noconvert(), arg("threads"));
}

} // namespace tagwood
