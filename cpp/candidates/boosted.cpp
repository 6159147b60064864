// A row does not walk down a tree: every test of the tree is made, and where it fails, the leaves to its left are
// struck out of a bit mask. The first leaf that is left is the one a walk would reach (QuickScorer, Lucchese et al.
// 2015). Sixteen rows go through the tests together, without branches and without waiting for one node before the next.
#include "candidates/boosted.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

constexpr int kLanes = 16;
constexpr int kMostLeaves = 32; // of a tree whose leaves fit into a mask; larger ones are walked

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));

struct Test {
  int32_t feature;
  float threshold;
  int32_t right; // leaves that are left where the test fails
};

struct Tests {
  std::vector<Test> nan_left, nan_right; // a missing value passes, or fails
  double values[kMostLeaves];
  int n_leaves = 0;
};

// The largest float up to x: a float is at most x if and only if it is at most this one.
float round_down(double x) {
  const auto near = static_cast<float>(x);
  return near > x ? std::nextafter(near, -std::numeric_limits<float>::infinity()) : near;
}

// Collects the tests below a node, and returns its leaves, numbered from left to right; 0 where there are too many.
uint32_t collect(const BoostedView &trees, int64_t node, Tests &tests) {
  if (trees.feature[node] < 0) {
    if (tests.n_leaves == kMostLeaves)
      return 0;
    tests.values[tests.n_leaves] = trees.value[node];
    return uint32_t{1} << tests.n_leaves++;
  }
  const uint32_t left = collect(trees, trees.left[node], tests);
  const uint32_t right = left ? collect(trees, trees.right[node], tests) : 0;
  if (!right)
    return 0;
  auto &side = trees.missing_left[node] ? tests.nan_left : tests.nan_right;
  side.push_back({trees.feature[node], round_down(trees.threshold[node]), static_cast<int32_t>(~left)});
  return left | right;
}

double walk(const BoostedView &trees, int64_t node, const float *columns) {
  while (trees.feature[node] >= 0) {
    const float x = columns[int64_t{trees.feature[node]} * kLanes];
    const bool to_left = std::isnan(x) ? trees.missing_left[node] != 0 : x <= trees.threshold[node];
    node = to_left ? trees.left[node] : trees.right[node];
  }
  return trees.value[node];
}

TAGWOOD_INLINE Floats load(const float *columns, int64_t feature) {
  Floats values;
  std::memcpy(&values, columns + feature * kLanes, sizeof(Floats));
  return values;
}

// `columns` holds the rows of a block side by side: kLanes values of each feature.
TAGWOOD_HOT void add_leaves(const Tests &tests, const float *columns, double *sums) {
  Ints masks = Ints{} - 1;
  for (const Test &test : tests.nan_left)
    masks &= ~(load(columns, test.feature) > test.threshold) | test.right;
  for (const Test &test : tests.nan_right)
    masks &= (load(columns, test.feature) <= test.threshold) | test.right;
  for (int lane = 0; lane < kLanes; ++lane)
    sums[lane] += tests.values[std::countr_zero(static_cast<uint32_t>(masks[lane]))];
}

} // namespace

void boosted_sums(const BoostedView &trees, const float *rows, int64_t n_rows, int64_t n_features, double start,
                  int threads, double *out) {
  std::vector<Tests> tests(trees.n_trees);
  std::vector<uint8_t> fits(trees.n_trees);
  for (int64_t tree = 0; tree < trees.n_trees; ++tree)
    fits[tree] = collect(trees, trees.roots[tree], tests[tree]) != 0;
  parallel_chunks((n_rows + kLanes - 1) / kLanes, threads, 32, [&](int64_t begin, int64_t end, int) {
    std::vector<float> columns(n_features * kLanes);
    for (int64_t first = begin * kLanes; first < std::min(n_rows, end * kLanes); first += kLanes) {
      const auto n = static_cast<int>(std::min<int64_t>(kLanes, n_rows - first));
      for (int lane = 0; lane < n; ++lane)
        for (int64_t feature = 0; feature < n_features; ++feature)
          columns[feature * kLanes + lane] = rows[(first + lane) * n_features + feature];
      double sums[kLanes];
      std::fill_n(sums, kLanes, start);
      for (int64_t tree = 0; tree < trees.n_trees; ++tree)
        if (fits[tree])
          add_leaves(tests[tree], columns.data(), sums);
        else
          for (int lane = 0; lane < n; ++lane)
            sums[lane] += walk(trees, trees.roots[tree], columns.data() + lane);
      std::copy_n(sums, n, out + first);
    }
  });
}

} // namespace tagwood
