// Python bindings of the kernels in rows/.
#include <algorithm>
#include <functional>

#include "core/binding.hpp"
#include "rows/rows.hpp"

namespace tagwood {

namespace {

using CsrOut = std::tuple<Out<int64_t>, Out<int32_t>, Out<float>>;

Out<float> py_normalize_rows(In<int64_t> indptr, In<float> data, int threads) {
  Filled<float> out(data.shape(0));
  {
    nb::gil_scoped_release release;
    normalize_rows(indptr.data(), data.data(), static_cast<int64_t>(indptr.shape(0)) - 1, threads, out.data());
  }
  return out.give();
}

bool py_rows_rise(In<int64_t> indptr, In<int32_t> indices) {
  nb::gil_scoped_release release;
  return rows_rise(indptr.data(), indices.data(), static_cast<int64_t>(indptr.shape(0)) - 1);
}

bool py_rows_valid(In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t n_cols) {
  nb::gil_scoped_release release;
  return rows_valid(view(indptr, indices, data, n_cols), static_cast<int64_t>(std::min(indices.size(), data.size())));
}

CsrOut py_top_k_rows(In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t k, int threads) {
  const CsrView rows = view(indptr, indices, data, 0);
  Filled<int64_t> out_indptr(rows.n_rows + 1);
  out_indptr.data()[0] = 0;
  for (int64_t row = 0; row < rows.n_rows; ++row)
    out_indptr.data()[row + 1] = out_indptr.data()[row] + std::min(k, rows.row_size(row));
  Filled<int32_t> out_indices(out_indptr.data()[rows.n_rows]);
  Filled<float> out_data(out_indptr.data()[rows.n_rows]);
  {
    nb::gil_scoped_release release;
    top_k_rows(rows, threads, out_indptr.data(), out_indices.data(), out_data.data());
  }
  return {out_indptr.give(), out_indices.give(), out_data.give()};
}

// The rows keep their numbers: all others are empty in the result.
CsrOut py_take_rows(In<int64_t> indptr, In<int32_t> indices, In<float> data, In<int32_t> rows, bool mapped) {
  const CsrView x = view(indptr, indices, data, 0);
  const std::span<const int32_t> taken(rows.data(), rows.shape(0));
  if (std::adjacent_find(taken.begin(), taken.end(), std::greater_equal<>()) != taken.end() ||
      (!taken.empty() && (taken.front() < 0 || taken.back() >= x.n_rows)))
    throw nb::value_error("take_rows: rows must rise from 0 to the number of rows");
  Filled<int64_t> out_indptr(x.n_rows + 1);
  int64_t *starts = out_indptr.data();
  std::fill(starts, starts + x.n_rows + 1, 0);
  for (const int32_t row : taken)
    starts[row + 1] = x.row_size(row);
  for (int64_t row = 0; row < x.n_rows; ++row)
    starts[row + 1] += starts[row];
  Filled<int32_t> out_indices(starts[x.n_rows]);
  Filled<float> out_data(starts[x.n_rows]);
  {
    nb::gil_scoped_release release;
    take_rows(x, taken, mapped, out_indices.data(), out_data.data());
  }
  return {out_indptr.give(), out_indices.give(), out_data.give()};
}

CsrOut py_label_centroids(In<int64_t> x_indptr, In<int32_t> x_indices, In<float> x_data, int64_t n_features,
                          In<int64_t> label_indptr, In<int32_t> label_rows, In<float> label_weights,
                          int64_t max_features, int threads, bool mapped) {
  const CsrView x = view(x_indptr, x_indices, x_data, n_features);
  const CsrView labels = view(label_indptr, label_rows, label_weights, x.n_rows);
  Filled<int64_t> out_indptr(labels.n_rows + 1);
  int64_t *starts = out_indptr.data();
  {
    nb::gil_scoped_release release;
    starts[0] = 0;
    centroid_sizes(x, labels, max_features, threads, mapped, starts + 1);
    for (int64_t label = 0; label < labels.n_rows; ++label)
      starts[label + 1] += starts[label];
  }
  Filled<int32_t> out_indices(starts[labels.n_rows]);
  Filled<float> out_data(starts[labels.n_rows]);
  {
    nb::gil_scoped_release release;
    label_centroids(x, labels, threads, mapped, starts, out_indices.data(), out_data.data());
  }
  return {out_indptr.give(), out_indices.give(), out_data.give()};
}

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

using Places = std::tuple<Out<int32_t>, Out<float>, Out<int32_t>>;

Places py_merge_lists(In<int32_t> labels, In<float> scores, In<int32_t> found, int64_t n_lists, int k, int threads) {
  const int64_t n_rows = n_lists > 0 ? static_cast<int64_t>(found.shape(0)) / n_lists : 0;
  const int64_t width = n_rows > 0 ? static_cast<int64_t>(labels.shape(0)) / (n_lists * n_rows) : 0;
  if (n_lists < 1 || k < 1 || static_cast<int64_t>(found.shape(0)) != n_lists * n_rows ||
      static_cast<int64_t>(labels.shape(0)) != n_lists * n_rows * width || scores.shape(0) != labels.shape(0))
    throw nb::value_error("merge_lists: labels, scores and found have inconsistent lengths");
  Filled<int32_t> out_labels(n_rows * k), out_found(n_rows);
  Filled<float> out_scores(n_rows * k);
  {
    nb::gil_scoped_release release;
    merge_lists({labels.data(), scores.data(), found.data(), n_lists, n_rows, width}, k, threads, out_labels.data(),
                out_scores.data(), out_found.data());
  }
  return {out_labels.give(), out_scores.give(), out_found.give()};
}

Out<float> py_calibrate(In<float> scores, bool as_odds, In<double> x, In<double> y) {
  if (x.shape(0) < 1 || x.shape(0) != y.shape(0))
    throw nb::value_error("calibrate: x and y must have the same length, at least 1");
  const int64_t n = static_cast<int64_t>(scores.shape(0));
  Filled<float> out(n);
  {
    nb::gil_scoped_release release;
    calibrate({x.data(), y.data(), static_cast<int64_t>(x.shape(0))}, scores.data(), n, as_odds, out.data());
  }
  return out.give();
}

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

void bind_rows(nb::module_ &m) {
  using nb::arg;
  m.def("normalize_rows", &py_normalize_rows,
        "Scale each row of a CSR matrix to norm 1; rows of norm 0 stay unchanged.", arg("indptr").noconvert(),
        arg("data").noconvert(), arg("threads"));
  m.def("rows_rise", &py_rows_rise, "Whether columns rise strictly inside every row.", arg("indptr").noconvert(),
        arg("indices").noconvert());
  m.def("rows_valid", &py_rows_valid,
        "Whether a CSR matrix is canonical: indptr rises from 0, columns rise and are in range, values are finite.",
        arg("indptr").noconvert(), arg("indices").noconvert(), arg("data").noconvert(), arg("n_cols"));
  m.def("top_k_rows", &py_top_k_rows,
        "The k largest entries of each row, largest first; ties go to the smaller column.", arg("indptr").noconvert(),
        arg("indices").noconvert(), arg("data").noconvert(), arg("k"), arg("threads"));
  m.def("take_rows", &py_take_rows,
        "Some rows (rising) of a CSR matrix under their own numbers: all other rows are empty.",
        arg("indptr").noconvert(), arg("indices").noconvert(), arg("data").noconvert(), arg("rows").noconvert(),
        arg("mapped") = false);
  m.def("label_centroids", &py_label_centroids,
        "Per label the weighted sum of its rows of X, scaled to norm 1; the `max_features` largest entries.",
        arg("x_indptr").noconvert(), arg("x_indices").noconvert(), arg("x_data").noconvert(), arg("n_features"),
        arg("label_indptr").noconvert(), arg("label_rows").noconvert(), arg("label_weights").noconvert(),
        arg("max_features"), arg("threads"), arg("mapped") = false);
  m.def("rows_distinct", &py_rows_distinct, "Whether no row contains a label twice.", arg("indptr").noconvert(),
        arg("labels").noconvert());
  m.def("match_rows", &py_match_rows,
        "1 for each entry of a ranking whose label is among the true labels (rising) of the same row.",
        arg("true_indptr").noconvert(), arg("true_labels").noconvert(), arg("indptr").noconvert(),
        arg("labels").noconvert(), arg("threads"));
  m.def("ranked_gains", &py_ranked_gains,
        "Sums of hit * weight * discount over the first cutoffs[c] entries of each row, (n_rows, n_cutoffs) flat.",
        arg("indptr").noconvert(), arg("labels").noconvert(), arg("hits").noconvert(), arg("weights").noconvert(),
        arg("discounts").noconvert(), arg("cutoffs").noconvert(), arg("threads"));
  m.def("best_gains", &py_best_gains,
        "`ranked_gains` of the best ranking: the true labels of each row by falling weight.",
        arg("true_indptr").noconvert(), arg("true_labels").noconvert(), arg("weights").noconvert(),
        arg("discounts").noconvert(), arg("cutoffs").noconvert(), arg("threads"));
  m.def("merge_lists", &py_merge_lists,
        "Best k labels of each row by mean score over several lists: labels, scores, number found.",
        arg("labels").noconvert(), arg("scores").noconvert(), arg("found").noconvert(), arg("n_lists"), arg("k"),
        arg("threads"));
  m.def("calibrate", &py_calibrate, "Values of the curve through the knots (x, y) at the scores, or at their log odds.",
        arg("scores").noconvert(), arg("as_odds"), arg("x").noconvert(), arg("y").noconvert());
  m.def("parse_rows", &py_parse_rows, "Parse lines `l1,l2 f:v f:v`, at most `max_rows`, up to the first bad one.",
        arg("text").noconvert(), arg("last"), arg("max_rows"), arg("n_labels"), arg("n_features"));
}

} // namespace tagwood
