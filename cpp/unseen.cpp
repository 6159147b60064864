// Level by level: the nodes of a level are trained, score the rows in whose beams they are, and are forgotten. The
// weights are never packed nor looked up: they are used where they were learned, for all rows of a node together.
#include "unseen.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

#include "block_training.hpp"
#include "search_state.hpp"

namespace tagwood {

namespace {

constexpr size_t kMostRows = size_t{1} << 15; // of a half that a node is trained on

// The best `width` nodes of each row. Nodes that are trained at the same time may offer children to the same row; the
// order of results is total, so the beam does not depend on who comes first.
class Beams {
public:
  Beams(int64_t n_rows, int width)
      : width_(width), items_(n_rows * width), sizes_(n_rows, 0), busy_(new std::atomic_flag[n_rows]) {}

  std::span<const Scored> row(int64_t row) const {
    return {items_.data() + row * width_, static_cast<size_t>(sizes_[row])};
  }
  void clear() { std::fill(sizes_.begin(), sizes_.end(), 0); }

  void offer(int64_t row, std::span<const Scored> candidates) {
    take(row);
    Best best{items_.data() + row * width_, sizes_[row], width_};
    for (const Scored &candidate : candidates)
      best.offer(candidate);
    sizes_[row] = best.size;
    give_back(row);
  }

  // Whether the beam of a row is full of nodes with better scores: then nobody below such a node will enter it.
  bool is_closed(int64_t row, float score) {
    take(row);
    const bool closed = sizes_[row] == width_ && items_[(row + 1) * width_ - 1].score > score;
    give_back(row);
    return closed;
  }

private:
  void take(int64_t row) {
    while (busy_[row].test_and_set(std::memory_order_acquire)) {
    }
  }
  void give_back(int64_t row) { busy_[row].clear(std::memory_order_release); }

  int width_;
  std::vector<Scored> items_;
  std::vector<int> sizes_;
  std::unique_ptr<std::atomic_flag[]> busy_;
};

// Memory of one thread: the rows of one half that visit a node, with its score, and the margins of its children.
struct Memory {
  Workspace training;
  std::vector<Scored> visits; // ids are rows
  std::vector<int32_t> rows;
  std::vector<float> margins;
};

class UnseenMatching {
public:
  UnseenMatching(const CsrView &x, const TrainTasks &tasks, const int32_t *child_ptr, const TrainOptions &training,
                 const UnseenOptions &options)
      : x_(x), tasks_(tasks), child_ptr_(child_ptr), training_(training), o_(options),
        memories_(std::max(1, training.threads)), present_(x.n_rows, options.width), next_(x.n_rows, options.width) {}

  void run(int32_t *leaves) {
    const Scored root{0.0f, 0};
    for (int64_t row = 0; row < x_.n_rows; ++row)
      next_.offer(row, {&root, 1});
    while (collect_visits())
      visit_level();
    for (int64_t row = 0; row < x_.n_rows; ++row) {
      const auto found = next_.row(row);
      for (int place = 0; place < o_.width; ++place)
        leaves[row * o_.width + place] = place < static_cast<int>(found.size()) ? found[place].id : -1;
    }
  }

private:
  bool in_second(int32_t row) const { return o_.second_half[row] != 0; }
  bool is_leaf(int32_t node) const { return child_ptr_[node] == child_ptr_[node + 1]; }

  // Sorts the inner nodes of all beams by node; false where there are none. Beams then hold the leaves alone.
  bool collect_visits() {
    std::swap(present_, next_);
    next_.clear();
    ptr_.assign(tasks_.n_blocks + 1, 0);
    for (int64_t row = 0; row < x_.n_rows; ++row)
      for (const Scored &item : present_.row(row))
        if (!is_leaf(item.id))
          ++ptr_[item.id + 1];
    nodes_.clear();
    for (int64_t node = 0; node < tasks_.n_blocks; ++node) {
      if (ptr_[node + 1] > 0)
        nodes_.push_back(static_cast<int32_t>(node));
      ptr_[node + 1] += ptr_[node];
    }
    visits_.resize(ptr_.back());
    std::vector<int64_t> ends(ptr_.begin(), ptr_.end() - 1);
    for (int64_t row = 0; row < x_.n_rows; ++row)
      for (const Scored &item : present_.row(row)) {
        if (is_leaf(item.id))
          next_.offer(row, {&item, 1});
        else
          visits_[ends[item.id]++] = {item.score, static_cast<int32_t>(row)};
      }
    return !nodes_.empty();
  }

  void visit_level() {
    auto size = [&](int32_t node) {
      return ptr_[node + 1] - ptr_[node] + tasks_.row_end[node] - tasks_.row_begin[node];
    };
    std::stable_sort(nodes_.begin(), nodes_.end(), [&](int32_t a, int32_t b) { return size(a) > size(b); });
    parallel_chunks(static_cast<int64_t>(nodes_.size()), training_.threads, 1,
                    [&](int64_t begin, int64_t end, int thread) {
                      for (int64_t i = begin; i < end; ++i)
                        visit_node(nodes_[i], memories_[thread]);
                    });
  }

  void visit_node(int32_t node, Memory &memory) {
    Workspace &ws = memory.training;
    BlockTraining training(x_, tasks_, node, training_, ws);
    for (const bool second : {false, true}) {
      memory.visits.clear();
      memory.rows.clear();
      for (int64_t i = ptr_[node]; i < ptr_[node + 1]; ++i)
        if (in_second(visits_[i].id) == second && !next_.is_closed(visits_[i].id, visits_[i].score)) {
          memory.visits.push_back(visits_[i]);
          memory.rows.push_back(visits_[i].id);
        }
      if (memory.rows.empty())
        continue;
      ws.sequence.clear();
      for (size_t place = 0; place < ws.row_of.size(); ++place)
        if (in_second(ws.row_of[place]) != second)
          ws.sequence.push_back(static_cast<int32_t>(place));
      keep_some(ws.sequence);
      for (int64_t first = 0; first < training.n_outputs(); first += training.lanes()) {
        training.train_group(first);
        offer_group(training, node, first, memory);
      }
    }
  }

  // Keeps places at even distances: a rough classifier needs no more rows.
  static void keep_some(std::vector<int32_t> &places) {
    const size_t step = (places.size() + kMostRows - 1) / kMostRows;
    size_t kept = 0;
    for (size_t i = 0; i < places.size(); i += step)
      places[kept++] = places[i];
    places.resize(kept);
  }

  // Offers the children of a group to the rows of one half that visit their parent.
  void offer_group(const BlockTraining &training, int32_t node, int64_t first, Memory &memory) {
    const int lanes = training.lanes();
    const int n = static_cast<int>(std::min<int64_t>(lanes, training.n_outputs() - first));
    const int32_t first_child = static_cast<int32_t>(child_ptr_[node] + first);
    memory.margins.resize(memory.rows.size() * lanes);
    training.group_margins(x_, memory.rows, memory.margins.data());
    Scored children[kMaxLanes];
    for (size_t i = 0; i < memory.rows.size(); ++i) {
      float *scores = memory.margins.data() + i * lanes;
      apply_link(o_.link, scores, n, memory.visits[i].score);
      for (int lane = 0; lane < n; ++lane)
        children[lane] = {scores[lane], first_child + lane};
      next_.offer(memory.rows[i], {children, static_cast<size_t>(n)});
    }
  }

  const CsrView &x_;
  const TrainTasks &tasks_;
  const int32_t *child_ptr_;
  const TrainOptions &training_;
  const UnseenOptions &o_;
  std::vector<Memory> memories_;
  Beams present_, next_;
  std::vector<int64_t> ptr_;
  std::vector<Scored> visits_; // ids are rows
  std::vector<int32_t> nodes_;
};

} // namespace

void match_unseen(const CsrView &x, const TrainTasks &tasks, const int32_t *child_ptr, const TrainOptions &training,
                  const UnseenOptions &options, int32_t *leaves) {
  UnseenMatching(x, tasks, child_ptr, training, options).run(leaves);
}

} // namespace tagwood
