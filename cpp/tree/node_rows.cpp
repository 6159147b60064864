#include "tree/node_rows.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

struct Entry {
  int32_t row;
  float weight;
};

// Collects rows without repetition, keeping the largest weight of each.
class Union {
public:
  explicit Union(int64_t n_rows) : place_(n_rows, -1) {}
  void add(int32_t row, float weight) {
    int32_t &place = place_[row];
    if (place < 0) {
      place = static_cast<int32_t>(entries_.size());
      entries_.push_back({row, weight});
    } else {
      entries_[place].weight = std::max(entries_[place].weight, weight);
    }
  }
  std::vector<Entry> take() {
    for (const Entry &e : entries_)
      place_[e.row] = -1;
    std::sort(entries_.begin(), entries_.end(), [](const Entry &a, const Entry &b) { return a.row < b.row; });
    std::vector<Entry> sorted(entries_);
    entries_.clear();
    return sorted;
  }

private:
  std::vector<int32_t> place_;
  std::vector<Entry> entries_;
};

} // namespace

NodeRows node_rows(const CsrView &label_rows, const int32_t *parent, const int32_t *label_ptr, const int32_t *labels,
                   int32_t n_nodes, int64_t n_rows, int threads) {
  std::vector<std::vector<Entry>> entries(n_nodes);
  std::vector<Union> unions(std::max(1, threads), Union(n_rows));
  parallel_chunks(n_nodes, threads, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t node = begin; node < end; ++node) {
      for (int32_t at = label_ptr[node]; at < label_ptr[node + 1]; ++at) {
        const auto rows = label_rows.row_indices(labels[at]);
        const auto weights = label_rows.row_data(labels[at]);
        for (size_t i = 0; i < rows.size(); ++i)
          unions[thread].add(rows[i], weights[i]);
      }
      if (label_ptr[node] < label_ptr[node + 1])
        entries[node] = unions[thread].take();
    }
  });
  // Children have larger numbers than their parents, and brothers are neighbours: one pass from the end.
  for (int32_t last = n_nodes - 1; last > 0;) {
    const int32_t above = parent[last];
    int32_t first = last;
    while (first > 1 && parent[first - 1] == above)
      --first;
    for (int32_t child = first; child <= last; ++child)
      for (const Entry &e : entries[child])
        unions[0].add(e.row, e.weight);
    entries[above] = unions[0].take();
    last = first - 1;
  }
  NodeRows out;
  out.ptr.assign(1, 0);
  for (const auto &node : entries)
    out.ptr.push_back(out.ptr.back() + static_cast<int64_t>(node.size()));
  out.rows.reserve(out.ptr.back());
  out.weights.reserve(out.ptr.back());
  for (auto &node : entries) {
    for (const Entry &e : node) {
      out.rows.push_back(e.row);
      out.weights.push_back(e.weight);
    }
    std::vector<Entry>().swap(node);
  }
  return out;
}

} // namespace tagwood
