// Python bindings of the kernels in neighbours/.
#include <memory>

#include "core/binding.hpp"
#include "neighbours/index.hpp"

namespace tagwood {

namespace {

using Places = std::tuple<Out<int32_t>, Out<float>, Out<int32_t>>;
using IndexOut = std::tuple<Out<int64_t>, Out<int32_t>, Out<uint8_t>, Out<float>>;

const uint8_t *or_null(const In<uint8_t> &flags) { return flags.shape(0) ? flags.data() : nullptr; }

IndexOut py_build_index(In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t n_features) {
  const CsrView rows = view(indptr, indices, data, n_features);
  Filled<int64_t> feature_ptr(n_features + 1);
  Filled<int32_t> out_rows(indices.shape(0));
  Filled<uint8_t> codes(indices.shape(0));
  Filled<float> scale(n_features);
  {
    nb::gil_scoped_release release;
    int64_t *ptr = feature_ptr.data();
    std::fill(ptr, ptr + n_features + 1, 0);
    for (int64_t i = 0; i < size_of(indices); ++i)
      ++ptr[indices.data()[i] + 1];
    for (int64_t feature = 0; feature < n_features; ++feature)
      ptr[feature + 1] += ptr[feature];
    fill_index(rows, ptr, out_rows.data(), codes.data(), scale.data());
  }
  return {feature_ptr.give(), out_rows.give(), codes.give(), scale.give()};
}

Places py_nearest_rows(In<int64_t> feature_ptr, In<int32_t> rows, In<uint8_t> codes, In<float> scale, int64_t n_rows,
                       In<uint8_t> dead, In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t k,
                       int threads) {
  const int64_t n_features = size_of(scale);
  if (k < 1 || size_of(feature_ptr) != n_features + 1 || (size_of(dead) && size_of(dead) != n_rows))
    throw nb::value_error("nearest_rows: the arrays do not fit together");
  const CsrView queries = view(indptr, indices, data, n_features);
  Filled<int32_t> out_rows(queries.n_rows * k), found(queries.n_rows);
  Filled<float> scores(queries.n_rows * k);
  {
    nb::gil_scoped_release release;
    nearest_rows({feature_ptr.data(), rows.data(), codes.data(), scale.data(), n_rows, n_features}, or_null(dead),
                 queries, k, threads, out_rows.data(), scores.data(), found.data());
  }
  return {out_rows.give(), scores.give(), found.give()};
}

Places py_vote_labels(In<int32_t> rows, In<float> weights, In<int32_t> found, In<int64_t> label_ptr, In<int32_t> labels,
                      In<uint8_t> blocked, int64_t k, int threads) {
  const int64_t n_queries = size_of(found);
  if (k < 1 || size_of(rows) != size_of(weights) || (n_queries && size_of(rows) % n_queries))
    throw nb::value_error("vote_labels: the arrays do not fit together");
  Filled<int32_t> out_labels(n_queries * k), out_found(n_queries);
  Filled<float> scores(n_queries * k);
  {
    nb::gil_scoped_release release;
    vote_labels({found.data(), static_cast<size_t>(n_queries)}, rows.data(), weights.data(),
                n_queries ? size_of(rows) / n_queries : 0, label_ptr.data(), labels.data(), or_null(blocked), k,
                threads, out_labels.data(), scores.data(), out_found.data());
  }
  return {out_labels.give(), scores.give(), out_found.give()};
}

} // namespace

void bind_neighbours(nb::module_ &m) {
  using nb::arg;
  m.def("build_index", &py_build_index, arg("indptr").noconvert(), arg("indices").noconvert(), arg("data").noconvert(),
        arg("n_features"));
  m.def("nearest_rows", &py_nearest_rows, arg("feature_ptr").noconvert(), arg("rows").noconvert(),
        arg("codes").noconvert(), arg("scale").noconvert(), arg("n_rows"), arg("dead").noconvert(),
        arg("indptr").noconvert(), arg("indices").noconvert(), arg("data").noconvert(), arg("k"), arg("threads"));
  m.def("vote_labels", &py_vote_labels, arg("rows").noconvert(), arg("weights").noconvert(), arg("found").noconvert(),
        arg("label_ptr").noconvert(), arg("labels").noconvert(), arg("blocked").noconvert(), arg("k"), arg("threads"));
}

} // namespace tagwood
