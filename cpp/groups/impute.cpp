#include "groups/impute.hpp"

#include <algorithm>
#include <numeric>

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

namespace {

constexpr int64_t kSumsLimit = 1 << 26; // entries of all group sums together (512 MB)

// Labels with many rows first, so that no thread is left with the largest one at the end.
std::vector<int64_t> by_falling_work(const GroupsView &groups) {
  std::vector<int64_t> work(groups.n_labels, 0);
  for (int64_t label = 0; label < groups.n_labels; ++label)
    for (int64_t at = groups.label_indptr[label]; at < groups.label_indptr[label + 1]; ++at)
      work[label] += groups.group_indptr[groups.label_groups[at] + 1] - groups.group_indptr[groups.label_groups[at]];
  std::vector<int64_t> order(groups.n_labels);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return work[a] > work[b]; });
  return order;
}

template <class Entry, class Read>
std::vector<std::vector<Entry>> solve_all(const GroupsView &groups, const ImputeSettings &settings, int threads,
                                          Read &&read) {
  std::vector<std::vector<Entry>> found(groups.n_labels);
  const std::vector<int64_t> order = by_falling_work(groups);
  const GroupSums sums(groups, kSumsLimit, threads);
  const float *data = groups.x.data;
  const bool negative = std::any_of(data, data + groups.x.indptr[groups.x.n_rows], [](float v) { return v < 0; });
  std::vector<std::vector<LabelSolver>> solvers(std::max(1, threads));
  parallel_chunks(groups.n_labels, threads, 4, [&](int64_t begin, int64_t end, int thread) {
    if (solvers[thread].empty())
      solvers[thread].emplace_back(groups, sums, settings, negative);
    for (int64_t i = begin; i < end; ++i) {
      solvers[thread][0].solve(order[i]);
      found[order[i]] = read(solvers[thread][0]);
    }
  });
  return found;
}

} // namespace

std::vector<std::vector<Assignment>> impute_groups(const GroupsView &groups, const ImputeSettings &settings,
                                                   int threads) {
  return solve_all<Assignment>(groups, settings, threads, [](LabelSolver &solver) { return solver.assignments(); });
}

std::vector<std::vector<EmbeddingEntry>> embed_groups(const GroupsView &groups, const ImputeSettings &settings,
                                                      int threads) {
  return solve_all<EmbeddingEntry>(groups, settings, threads, [](LabelSolver &solver) { return solver.embedding(); });
}

} // namespace tagwood
