// The sum of the rows of each group, which all labels of the group start from.
#pragma once

#include <vector>

#include "groups/impute.hpp"

namespace tagwood {

class GroupSums {
public:
  // Sums that would take more than `limit` entries are not kept: then each label adds up the rows.
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
