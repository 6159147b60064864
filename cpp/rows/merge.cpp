#include "rows/merge.hpp"

#include <algorithm>
#include <vector>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

struct Item {
  int32_t label;
  double score;
};

// Joins items of one label; their scores are added in the order of the lists.
void add_up(std::vector<Item> &items) {
  std::stable_sort(items.begin(), items.end(), [](const Item &a, const Item &b) { return a.label < b.label; });
  size_t kept = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (kept > 0 && items[kept - 1].label == items[i].label)
      items[kept - 1].score += items[i].score;
    else
      items[kept++] = items[i];
  }
  items.resize(kept);
}

} // namespace

void merge_lists(const Lists &lists, int k, int threads, int32_t *labels, float *scores, int32_t *found) {
  const double share = 1.0 / static_cast<double>(lists.n_lists);
  const int64_t chunk = std::clamp<int64_t>(lists.n_rows / std::max(1, threads), 1, 4096);
  parallel_chunks(lists.n_rows, lists.n_rows == 1 ? 1 : threads, chunk, [&](int64_t begin, int64_t end, int) {
    std::vector<Item> items;
    for (int64_t row = begin; row < end; ++row) {
      items.clear();
      for (int64_t list = 0; list < lists.n_lists; ++list) {
        const int64_t first = (list * lists.n_rows + row) * lists.width;
        const int64_t used = std::min<int64_t>(lists.found[list * lists.n_rows + row], lists.width);
        for (int64_t i = first; i < first + used; ++i)
          items.push_back({lists.labels[i], lists.scores[i] * share});
      }
      add_up(items);
      const int n = static_cast<int>(std::min<size_t>(items.size(), static_cast<size_t>(k)));
      std::partial_sort(items.begin(), items.begin() + n, items.end(), [](const Item &a, const Item &b) {
        const float x = static_cast<float>(a.score), y = static_cast<float>(b.score);
        return x != y ? x > y : a.label < b.label;
      });
      for (int i = 0; i < k; ++i) {
        labels[row * k + i] = i < n ? items[i].label : -1;
        scores[row * k + i] = i < n ? static_cast<float>(items[i].score) : 0.0f;
      }
      found[row] = n;
    }
  });
}

} // namespace tagwood
