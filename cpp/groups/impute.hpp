// Group-robust label embeddings: to which rows of each group does a label belong?
#pragma once

#include <vector>

#include "core/arrays.hpp"

namespace tagwood {

// Rows of x have norm 1 (or 0). Group j holds group_rows[group_indptr[j] : group_indptr[j + 1]]; label l belongs to the
// groups label_groups[label_indptr[l] : label_indptr[l + 1]]; label_starts[l] is its place in the order in which labels
// take the rows of a group whose rows cancel out; `background` (one number per feature) is subtracted from every
// row of a sum.
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

// The sum of the rows of each group, from which all labels of the group start.
class GroupSums {
public:
  // Sums that would take more than `limit` entries are not kept: each label then adds up the rows.
  GroupSums(const GroupsView &groups, int64_t limit, int threads);

  // Calls use(feature, value) for parts that add up to the sum of the group.
  template <class Use> void for_each(int32_t group, Use &&use) const {
    if (!sums_.empty()) {
      for (const EmbeddingEntry &entry : sums_[group])
        use(entry.feature, entry.value);
      return;
    }
    const CsrView &x = groups_.x;
    for (int64_t i = groups_.group_indptr[group]; i < groups_.group_indptr[group + 1]; ++i)
      for (int64_t at = x.indptr[groups_.group_rows[i]]; at < x.indptr[groups_.group_rows[i] + 1]; ++at)
        use(x.indices[at], x.data[at]);
  }

private:
  const GroupsView &groups_;
  std::vector<std::vector<EmbeddingEntry>> sums_;
};

} // namespace tagwood
