// Border to Python of rows.hpp.
#include "binding.hpp"
#include "rows.hpp"

#include <algorithm>

using namespace tagwood;

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

CsrOut py_label_centroids(In<int64_t> x_indptr, In<int32_t> x_indices, In<float> x_data, int64_t n_features,
                          In<int64_t> label_indptr, In<int32_t> label_rows, In<float> label_weights,
                          int64_t max_features, int threads) {
  const CsrView x = view(x_indptr, x_indices, x_data, n_features);
  const CsrView labels = view(label_indptr, label_rows, label_weights, x.n_rows);
  Filled<int64_t> out_indptr(labels.n_rows + 1);
  int64_t *starts = out_indptr.data();
  {
    nb::gil_scoped_release release;
    starts[0] = 0;
    centroid_sizes(x, labels, max_features, threads, starts + 1);
    for (int64_t label = 0; label < labels.n_rows; ++label)
      starts[label + 1] += starts[label];
  }
  Filled<int32_t> out_indices(starts[labels.n_rows]);
  Filled<float> out_data(starts[labels.n_rows]);
  {
    nb::gil_scoped_release release;
    label_centroids(x, labels, threads, starts, out_indices.data(), out_data.data());
  }
  return {out_indptr.give(), out_indices.give(), out_data.give()};
}

} // namespace

namespace tagwood {

void bind_rows(nb::module_ &m) {
  using nb::arg;
  m.def("normalize_rows", &py_normalize_rows, arg("indptr").noconvert(), arg("data").noconvert(), arg("threads"));
  m.def("rows_rise", &py_rows_rise, arg("indptr").noconvert(), arg("indices").noconvert());
  m.def("rows_valid", &py_rows_valid, arg("indptr").noconvert(), arg("indices").noconvert(), arg("data").noconvert(),
        arg("n_cols"));
  m.def("top_k_rows", &py_top_k_rows, arg("indptr").noconvert(), arg("indices").noconvert(), arg("data").noconvert(),
        arg("k"), arg("threads"));
  m.def("label_centroids", &py_label_centroids, arg("x_indptr").noconvert(), arg("x_indices").noconvert(),
        arg("x_data").noconvert(), arg("n_features"), arg("label_indptr").noconvert(), arg("label_rows").noconvert(),
        arg("label_weights").noconvert(), arg("max_features"), arg("threads"));
}

} // namespace tagwood
