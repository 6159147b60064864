// Group-robust label embeddings: who in each group does a label belong to?
#pragma once

#include <vector>

#include "core/arrays.hpp"

namespace tagwood {

// Rows of x have norm 1 (or 0). Group j holds group_rows[group_indptr[j] : group_indptr[j + 1]]; label l stands on
// label_groups[label_indptr[l] : label_indptr[l + 1]]; label_starts[l] is its place in the order in which labels
// share out the rows of a group whose rows cancel out; `background` (one number per feature) is taken off every row
// that is summed up.
struct GroupsView {
  CsrView x;
  const int64_t *group_indptr;
  const int32_t *group_rows;
  const int64_t *label_indptr;
  const int32_t *label_groups;
  const int32_t *label_starts;
  const float *background;
  int64_t n_groups;
  int64_t n_labels;
};

struct ImputeSettings {
  int steps;
  double step_size;
  double margin; // rows less than this share of its cosine behind the closest row of their group share the label
};

struct Assignment {
  int32_t row;
  float similarity;
  float share;
};

struct EmbeddingEntry {
  int32_t feature;
  float value;
};

// For each label the rows it is given to, by rising row.
std::vector<std::vector<Assignment>> impute_groups(const GroupsView &groups, const ImputeSettings &settings,
                                                   int threads);

// For each label its embedding, by rising feature, zeros left out.
std::vector<std::vector<EmbeddingEntry>> embed_groups(const GroupsView &groups, const ImputeSettings &settings,
                                                      int threads);

} // namespace tagwood
