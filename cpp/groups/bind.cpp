// Python bindings of the kernels in groups/.
#include "core/binding.hpp"
#include "groups/impute.hpp"

namespace tagwood {

namespace {

struct GroupArrays {
  In<int64_t> x_indptr;
  In<int32_t> x_indices;
  In<float> x_data;
  int64_t n_features;
  In<int64_t> group_indptr;
  In<int32_t> group_rows;
  In<int64_t> label_indptr;
  In<int32_t> label_groups;
  In<int32_t> label_starts;
  In<float> mean;
  double contrast;

  GroupsView view_of() const {
    return {view(x_indptr, x_indices, x_data, n_features),
            group_indptr.data(),
            group_rows.data(),
            label_indptr.data(),
            label_groups.data(),
            label_starts.data(),
            mean.data(),
            contrast,
            static_cast<int64_t>(group_indptr.shape(0)) - 1,
            static_cast<int64_t>(label_indptr.shape(0)) - 1};
  }
};

template <class Entry> Filled<int64_t> starts_of(const std::vector<std::vector<Entry>> &lists) {
  Filled<int64_t> starts(lists.size() + 1);
  starts.data()[0] = 0;
  for (size_t i = 0; i < lists.size(); ++i)
    starts.data()[i + 1] = starts.data()[i] + static_cast<int64_t>(lists[i].size());
  return starts;
}

std::tuple<Out<int64_t>, Out<int32_t>, Out<float>, Out<float>>
py_impute_groups(In<int64_t> x_indptr, In<int32_t> x_indices, In<float> x_data, int64_t n_features,
                 In<int64_t> group_indptr, In<int32_t> group_rows, In<int64_t> label_indptr, In<int32_t> label_groups,
                 In<int32_t> label_starts, In<float> mean, double contrast, int steps, double step_size, double margin,
                 int threads) {
  const GroupArrays arrays{x_indptr,     x_indices,    x_data,       n_features, group_indptr, group_rows,
                           label_indptr, label_groups, label_starts, mean,       contrast};
  std::vector<std::vector<Assignment>> found;
  {
    nb::gil_scoped_release release;
    found = impute_groups(arrays.view_of(), {steps, step_size, margin}, threads);
  }
  Filled<int64_t> starts = starts_of(found);
  const size_t total = static_cast<size_t>(starts.data()[found.size()]);
  Filled<int32_t> rows(total);
  Filled<float> similarity(total), share(total);
  size_t at = 0;
  for (const auto &list : found)
    for (const Assignment &entry : list) {
      rows.data()[at] = entry.row;
      similarity.data()[at] = entry.similarity;
      share.data()[at++] = entry.share;
    }
  return {starts.give(), rows.give(), similarity.give(), share.give()};
}

std::tuple<Out<int64_t>, Out<int32_t>, Out<float>>
py_embed_groups(In<int64_t> x_indptr, In<int32_t> x_indices, In<float> x_data, int64_t n_features,
                In<int64_t> group_indptr, In<int32_t> group_rows, In<int64_t> label_indptr, In<int32_t> label_groups,
                In<int32_t> label_starts, In<float> mean, double contrast, int steps, double step_size, int threads) {
  const GroupArrays arrays{x_indptr,     x_indices,    x_data,       n_features, group_indptr, group_rows,
                           label_indptr, label_groups, label_starts, mean,       contrast};
  std::vector<std::vector<EmbeddingEntry>> found;
  {
    nb::gil_scoped_release release;
    found = embed_groups(arrays.view_of(), {steps, step_size, 0.0}, threads);
  }
  Filled<int64_t> starts = starts_of(found);
  const size_t total = static_cast<size_t>(starts.data()[found.size()]);
  Filled<int32_t> features(total);
  Filled<float> values(total);
  size_t at = 0;
  for (const auto &list : found)
    for (const EmbeddingEntry &entry : list) {
      features.data()[at] = entry.feature;
      values.data()[at++] = entry.value;
    }
  return {starts.give(), features.give(), values.give()};
}

} // namespace

void bind_groups(nb::module_ &m) {
  using nb::arg;
  m.def("impute_groups", &py_impute_groups,
        "Rows to which each label of each group belongs: indptr per label, rows, similarities, shares.",
        arg("x_indptr").noconvert(), arg("x_indices").noconvert(), arg("x_data").noconvert(), arg("n_features"),
        arg("group_indptr").noconvert(), arg("group_rows").noconvert(), arg("label_indptr").noconvert(),
        arg("label_groups").noconvert(), arg("label_starts").noconvert(), arg("mean").noconvert(), arg("contrast"),
        arg("steps"), arg("step_size"), arg("margin"), arg("threads"));
  m.def("embed_groups", &py_embed_groups, "Embedding of each label as CSR: indptr, features, values.",
        arg("x_indptr").noconvert(), arg("x_indices").noconvert(), arg("x_data").noconvert(), arg("n_features"),
        arg("group_indptr").noconvert(), arg("group_rows").noconvert(), arg("label_indptr").noconvert(),
        arg("label_groups").noconvert(), arg("label_starts").noconvert(), arg("mean").noconvert(), arg("contrast"),
        arg("steps"), arg("step_size"), arg("threads"));
}

} // namespace tagwood
