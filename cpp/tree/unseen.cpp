// Matching of training rows by classifiers that have not seen them, level by level: the nodes of a level are trained,
// score the rows in whose beams they are, and are discarded. The weights are never packed or looked up: they are used
// where they were learned, for all rows of a node together.
#include "tree/train.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

#include "tree/search.hpp"

namespace tagwood {

namespace {

constexpr size_t kMostRows = size_t{1} << 15; // of a half that a node is trained on
constexpr size_t kAhead = 8;                  // rows to prefetch

// The best `width` nodes of each row. Nodes that are trained at the same time may offer children to the same row; the
// order of results is total, so the beam does not depend on their timing.
class Beams {
public:
  Beams(int64_t n_rows, int width) : width_(width), n_rows_(n_rows), items_(n_rows * width), heads_(new Head[n_rows]) {}

  std::span<const Scored> row(int64_t row) const {
    return {items_.data() + row * width_, static_cast<size_t>(heads_[row].size)};
  }
  void clear() {
    for (int64_t row = 0; row < n_rows_; ++row)
      heads_[row].size = 0;
  }
  void prefetch(int64_t row) const {
    __builtin_prefetch(items_.data() + row * width_);
    __builtin_prefetch(heads_.get() + row);
  }

  void offer(int64_t row, std::span<const Scored> candidates) {
    Head &head = take(row);
    Best best{items_.data() + row * width_, head.size, width_};
    for (const Scored &candidate : candidates)
      best.offer(candidate);
    head.size = best.size;
    give_back(head);
  }

  // Whether the beam of a row is full of nodes with better scores: then no node below it can enter.
  bool is_closed(int64_t row, float score) {
    Head &head = take(row);
    const bool closed = head.size == width_ && items_[(row + 1) * width_ - 1].score > score;
    give_back(head);
    return closed;
  }

private:
  struct Head {
    int size = 0;
    std::atomic_flag busy;
  };

  Head &take(int64_t row) {
    Head &head = heads_[row];
    while (head.busy.test_and_set(std::memory_order_acquire)) {
    }
    return head;
  }
  static void give_back(Head &head) { head.busy.clear(std::memory_order_release); }

  int width_;
  int64_t n_rows_;
  std::vector<Scored> items_;
  std::unique_ptr<Head[]> heads_;
};

// Memory of one thread: the rows that a node is trained on; the rows of one half that visit it, with its score, and the
// margins of its children.
struct Memory {
  Workspace training;
  std::vector<int32_t> taught;
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
      each_followed(row, [&](const Scored &item) { ++ptr_[item.id + 1]; });
    nodes_.clear();
    for (int64_t node = 0; node < tasks_.n_blocks; ++node) {
      if (ptr_[node + 1] > 0)
        nodes_.push_back(static_cast<int32_t>(node));
      ptr_[node + 1] += ptr_[node];
    }
    visits_.resize(ptr_.back());
    std::vector<int64_t> ends(ptr_.begin(), ptr_.end() - 1);
    for (int64_t row = 0; row < x_.n_rows; ++row) {
      for (const Scored &item : present_.row(row))
        if (is_leaf(item.id))
          next_.offer(row, {&item, 1});
      each_followed(row,
                    [&](const Scored &item) { visits_[ends[item.id]++] = {item.score, static_cast<int32_t>(row)}; });
    }
    return !nodes_.empty();
  }

  template <class Visit> void each_followed(int64_t row, const Visit &visit) const {
    int left = o_.followed;
    for (const Scored &item : present_.row(row))
      if (!is_leaf(item.id) && left-- > 0)
        visit(item);
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
    choose_rows(node, memory.taught);
    BlockTraining training(x_, tasks_, node, memory.taught, training_, ws);
    for (const bool second : {false, true}) {
      memory.visits.clear();
      memory.rows.clear();
      for (int64_t i = ptr_[node]; i < ptr_[node + 1]; ++i) {
        if (i + static_cast<int64_t>(kAhead) < ptr_[node + 1])
          next_.prefetch(visits_[i + kAhead].id);
        if (in_second(visits_[i].id) == second && !next_.is_closed(visits_[i].id, visits_[i].score)) {
          memory.visits.push_back(visits_[i]);
          memory.rows.push_back(visits_[i].id);
        }
      }
      if (memory.rows.empty())
        continue;
      ws.trained.clear();
      for (size_t place = 0; place < ws.row_of.size(); ++place)
        if (in_second(ws.row_of[place]) != second)
          ws.trained.push_back(static_cast<int32_t>(place));
      for (int64_t first = 0; first < training.n_outputs(); first += training.lanes()) {
        training.train_group(first);
        offer_group(training, node, first, memory);
      }
    }
  }

  // The rows that a node is trained on: of a large half, rows at even distances. A rough classifier needs no more rows.
  void choose_rows(int32_t node, std::vector<int32_t> &chosen) const {
    const auto rows = tasks_.rows_of(node);
    size_t sizes[2] = {}, numbers[2] = {};
    for (const int32_t row : rows)
      ++sizes[in_second(row)];
    chosen.clear();
    for (const int32_t row : rows) {
      const bool second = in_second(row);
      const size_t step = (sizes[second] + kMostRows - 1) / kMostRows;
      if (numbers[second]++ % step == 0)
        chosen.push_back(row);
    }
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
      if (i + kAhead < memory.rows.size())
        next_.prefetch(memory.rows[i + kAhead]);
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
