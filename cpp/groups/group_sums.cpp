#include "groups/group_sums.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

// One group at a time, with scratch as wide as all features.
class Adder {
public:
  explicit Adder(const CsrView &x) : x_(x), total_(x.n_cols, 0.0), used_(x.n_cols, 0) {}

  std::vector<EmbeddingEntry> sum(const int32_t *begin, const int32_t *end) {
    features_.clear();
    for (const int32_t *row = begin; row != end; ++row)
      for (int64_t at = x_.indptr[*row]; at < x_.indptr[*row + 1]; ++at) {
        const int32_t feature = x_.indices[at];
        if (!used_[feature]) {
          used_[feature] = 1;
          features_.push_back(feature);
        }
        total_[feature] += x_.data[at];
      }
    std::vector<EmbeddingEntry> entries;
    entries.reserve(features_.size());
    for (const int32_t feature : features_) {
      entries.push_back({feature, static_cast<float>(total_[feature])});
      total_[feature] = 0;
      used_[feature] = 0;
    }
    return entries;
  }

private:
  const CsrView &x_;
  std::vector<double> total_;
  std::vector<uint8_t> used_;
  std::vector<int32_t> features_;
};

} // namespace

GroupSums::GroupSums(const GroupsView &groups, int64_t limit, int threads) : groups_(groups) {
  int64_t total = 0;
  for (int64_t i = 0; i < groups.group_indptr[groups.n_groups]; ++i)
    total += groups.x.row_size(groups.group_rows[i]);
  if (total > limit)
    return;
  sums_.resize(groups.n_groups);
  std::vector<std::vector<Adder>> adders(std::max(1, threads));
  parallel_chunks(groups.n_groups, threads, 64, [&](int64_t begin, int64_t end, int thread) {
    if (adders[thread].empty())
      adders[thread].emplace_back(groups.x);
    for (int64_t group = begin; group < end; ++group)
      sums_[group] = adders[thread][0].sum(groups.group_rows + groups.group_indptr[group],
                                           groups.group_rows + groups.group_indptr[group + 1]);
  });
}

} // namespace tagwood
