// Beam search.
//
// A beam keeps the best `width` nodes of each level; leaves stay in the beams of all deeper levels. The search visits
// the best open node first, on any level. The beams are the same as level by level: a node's score is never above its
// parent's, so the nodes of a level are visited from best to worst, and everything that could push a node out of its
// beam has arrived before the node is visited. Good labels are found early, and the search of a row ends when its k
// labels are better than any open node: the same result with a fraction of the visits.
//
// The score of a label with copies is that of its best copy, and the same argument holds. Only the mean of copies
// needs the whole beam.
//
// Rows of a chunk advance together, in the order of nodes, so that a node's weights are read once for all of them. A
// leaf has no children that could come before the next node, so with many rows several leaves of a row are visited in
// one turn: the same labels, with at times a few more visits than the row alone would take.
#include "tree/search.hpp"

#include <limits>

namespace tagwood {

namespace {

// Rows searched together: enough to share a node's weights, few enough that their beams fit in the caches.
constexpr int64_t kChunk = 16384;
constexpr int64_t kChunkPlaces = int64_t{1} << 20;
constexpr int64_t kChunkEntries = int64_t{3} << 19;

constexpr int64_t kManyRows = 64; // from here on several leaves of a row are visited in one turn
constexpr int kTurns = 3;

// Where each level starts; one more number ends the last.
std::vector<int32_t> find_levels(const TreeView &tree) {
  std::vector<int32_t> starts = {0, 1};
  while (tree.child_ptr[starts.back()] > starts.back())
    starts.push_back(tree.child_ptr[starts.back()]);
  return starts;
}

// Joins copies of a label by the mean of their probabilities, relative to the best: small ones would be rounded to 0.
// `items` is reordered.
void merge_copies(std::vector<Scored> &items) {
  std::sort(items.begin(), items.end(),
            [](const Scored &a, const Scored &b) { return a.id != b.id ? a.id < b.id : a.score > b.score; });
  size_t kept = 0;
  for (size_t i = 0; i < items.size();) {
    size_t j = i;
    const double best = items[i].score;
    double total = 0;
    for (; j < items.size() && items[j].id == items[i].id; ++j)
      total += std::exp(items[j].score - best);
    Scored merged = items[i];
    if (j - i > 1 && std::isfinite(best))
      merged.score = static_cast<float>(best + std::log(total / static_cast<double>(j - i)));
    items[kept++] = merged;
    i = j;
  }
  items.resize(kept);
}

void sort_visits(Scratch &s, int32_t n_nodes) {
  auto before = [](const Visit &a, const Visit &b) { return a.node < b.node; };
  if (s.visits.size() < 64 || static_cast<size_t>(n_nodes) > 4 * s.visits.size()) {
    std::sort(s.visits.begin(), s.visits.end(), before);
    return;
  }
  s.counts.assign(n_nodes + 1, 0);
  for (const Visit &v : s.visits)
    ++s.counts[v.node + 1];
  for (int32_t node = 0; node < n_nodes; ++node)
    s.counts[node + 1] += s.counts[node];
  s.sorted.resize(s.visits.size());
  for (const Visit &v : s.visits)
    s.sorted[s.counts[v.node]++] = v;
  std::swap(s.visits, s.sorted);
}

class BeamChunk {
public:
  // Without `open_leaves` the search ends at the leaves and no label is looked at. `n_rows` are all rows of the call.
  BeamChunk(const ModelView &model, const SearchOptions &o, const std::vector<int32_t> &level_starts, bool open_leaves,
            int64_t n_rows, Scratch &s)
      : model_(model), o_(o), level_starts_(level_starts), last_(static_cast<int>(level_starts.size()) - 2),
        open_leaves_(open_leaves), gathers_(o.has_copies && o.mean_copies), turns_(n_rows < kManyRows ? 1 : kTurns),
        s_(s) {}

  void run(const CsrView &x, int64_t begin, int64_t end, int32_t *evaluated, int64_t *outputs) {
    start(x, begin, end);
    while (!s_.active.empty()) {
      s_.visits.clear();
      size_t still = 0;
      for (const int32_t row : s_.active) {
        Visit visit{};
        bool more = true;
        for (int turn = 0; more && turn < turns_; ++turn) {
          more = next_visit(row, visit);
          if (more)
            s_.visits.push_back(visit);
          if (!model_.tree.is_leaf(visit.node))
            break; // its children may be next
        }
        if (more)
          s_.active[still++] = row;
      }
      s_.active.resize(still);
      sort_visits(s_, model_.tree.n_nodes);
      for (const Visit &visit : s_.visits) {
        score_outputs(model_, visit.node, visit.score, visit.row, s_);
        if (evaluated) {
          ++evaluated[begin + visit.row];
          outputs[begin + visit.row] += model_.tree.n_outputs(visit.node);
        }
        if (model_.tree.is_leaf(visit.node))
          take_labels(visit);
        else
          take_children(visit);
      }
    }
  }

  Best beam(int64_t row, int level) {
    const int64_t at = row * (last_ + 1) + level;
    return {s_.levels.data() + at * o_.width, s_.sizes[at], o_.width};
  }
  Best leaves(int64_t row) { return beam(row, last_); }

  Best labels(int64_t row) {
    Best best = results(row);
    if (gathers_) {
      merge_copies(s_.row_candidates[row]);
      for (const Scored &item : s_.row_candidates[row])
        best.offer(item);
    }
    return best;
  }

private:
  void start(const CsrView &x, int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    s_.rows.assign(x, begin, end, model_.blocks.feature_bits);
    s_.levels.resize(n * (last_ + 1) * o_.width);
    s_.sizes.assign(n * (last_ + 1), 0);
    s_.heads.assign(n * (last_ + 1), 0);
    s_.results.resize(n * o_.k);
    s_.result_sizes.assign(n, 0);
    s_.active.resize(n);
    if (gathers_) {
      s_.row_candidates.resize(n);
      for (auto &row : s_.row_candidates)
        row.clear();
    }
    for (int64_t row = 0; row < n; ++row) {
      s_.active[row] = static_cast<int32_t>(row);
      offer(row, 0, {0.0f, 0});
    }
  }

  Best results(int64_t row) { return {s_.results.data() + row * o_.k, s_.result_sizes[row], o_.k}; }

  void offer(int64_t row, int level, Scored node) {
    const int64_t at = row * (last_ + 1) + level;
    Best best = beam(row, level);
    best.offer(node, s_.heads[at]);
    s_.sizes[at] = best.size;
  }

  // The best node of any level that was not visited yet; false where the row is done.
  bool next_visit(int32_t row, Visit &visit) {
    while (true) {
      int level = -1;
      Scored node{};
      for (int l = 0; l <= last_; ++l) {
        const int64_t at = int64_t{row} * (last_ + 1) + l;
        const Scored *places = s_.levels.data() + at * o_.width;
        int &head = s_.heads[at];
        while (head < s_.sizes[at] && is_passed_over(places[head].id, l))
          ++head;
        if (head < s_.sizes[at] && (level < 0 || better(places[head], node))) {
          level = l;
          node = places[head];
        }
      }
      if (level < 0 || is_hopeless(row, node.score))
        return false;
      ++s_.heads[int64_t{row} * (last_ + 1) + level];
      if (model_.tree.is_leaf(node.id) && (!come_to_rest(row, level, node) || !open_leaves_))
        continue;
      visit = {node.id, row, node.score};
      return true;
    }
  }

  // Leaves were visited in the beam of their own level.
  bool is_passed_over(int32_t node, int level) const { return node < level_starts_[level]; }

  // Whether nothing below a node of this score can still be among the best labels, or leaves.
  bool is_hopeless(int64_t row, float score) {
    if (gathers_)
      return false;
    const Best best = open_leaves_ ? results(row) : leaves(row);
    return best.full() && best.items[best.capacity - 1].score > score;
  }

  // Adds a visited leaf to the beams of all deeper levels; false where one is full of better nodes.
  bool come_to_rest(int64_t row, int level, Scored leaf) {
    for (int l = level + 1; l <= last_; ++l) {
      const Best deeper = beam(row, l);
      if (deeper.full() && better(deeper.items[deeper.size - 1], leaf))
        return false;
      offer(row, l, leaf);
    }
    return true;
  }

  void take_children(const Visit &visit) {
    const int32_t first = model_.tree.child_ptr[visit.node];
    const int n = model_.tree.child_ptr[visit.node + 1] - first;
    const auto above = std::upper_bound(level_starts_.begin(), level_starts_.end(), first);
    const int level = static_cast<int>(above - level_starts_.begin()) - 1;
    for (int c = 0; c < n; ++c)
      if (!o_.node_allowed || o_.node_allowed[first + c])
        offer(visit.row, level, {s_.margins[c], first + c});
  }

  // Where copies count by their mean, every label is kept until the copies are merged.
  void take_labels(const Visit &visit) {
    const int32_t *ids = model_.tree.labels + model_.tree.label_ptr[visit.node];
    const int n = model_.tree.label_ptr[visit.node + 1] - model_.tree.label_ptr[visit.node];
    Best best = results(visit.row);
    const bool choosy = best.full() && !gathers_;
    const float least = choosy ? best.items[o_.k - 1].score : -std::numeric_limits<float>::infinity();
    const int found = select_scores(s_.margins.data(), n, least, s_.places.data());
    for (int i = 0; i < found; ++i) {
      const int c = s_.places[i];
      if (!is_allowed(model_, o_, ids[c]))
        continue;
      if (gathers_)
        s_.row_candidates[visit.row].push_back({s_.margins[c], ids[c]});
      else if (o_.has_copies)
        best.offer_once({s_.margins[c], ids[c]});
      else
        best.offer({s_.margins[c], ids[c]});
    }
    s_.result_sizes[visit.row] = best.size;
  }

  const ModelView &model_;
  const SearchOptions &o_;
  const std::vector<int32_t> &level_starts_;
  const int last_; // deepest level
  const bool open_leaves_;
  const bool gathers_;
  const int turns_; // visits of a row in one turn
  Scratch &s_;
};

int64_t chunk_size(const CsrView &x, const SearchOptions &o, const std::vector<int32_t> &level_starts) {
  const int64_t places = int64_t{o.width} * static_cast<int64_t>(level_starts.size()) + o.k;
  const int64_t entries = (x.indptr[x.n_rows] - x.indptr[0]) / std::max<int64_t>(1, x.n_rows) + 1;
  return std::clamp<int64_t>(std::min(kChunkPlaces / places, kChunkEntries / entries), 1, kChunk);
}

} // namespace

void beam_search(const ModelView &model, const CsrView &x, const SearchOptions &o, const SearchOutput &out) {
  const auto level_starts = find_levels(model.tree);
  for_chunks(model, x.n_rows, o.threads, chunk_size(x, o, level_starts), [&](int64_t begin, int64_t end, Scratch &s) {
    std::fill(out.evaluated + begin, out.evaluated + end, 0);
    std::fill(out.outputs + begin, out.outputs + end, 0);
    BeamChunk chunk(model, o, level_starts, true, x.n_rows, s);
    chunk.run(x, begin, end, out.evaluated, out.outputs);
    for (int64_t row = begin; row < end; ++row) {
      write_row(model, o, chunk.labels(row - begin), row, out);
      out.bound[row] = -1;
    }
  });
}

void beam_leaves(const ModelView &model, const CsrView &x, const SearchOptions &o, int32_t *leaves, float *scores) {
  const auto level_starts = find_levels(model.tree);
  for_chunks(model, x.n_rows, o.threads, chunk_size(x, o, level_starts), [&](int64_t begin, int64_t end, Scratch &s) {
    BeamChunk chunk(model, o, level_starts, false, x.n_rows, s);
    chunk.run(x, begin, end, nullptr, nullptr);
    for (int64_t row = begin; row < end; ++row) {
      const Best found = chunk.leaves(row - begin);
      for (int i = 0; i < o.width; ++i) {
        leaves[row * o.width + i] = i < found.size ? found.items[i].id : -1;
        scores[row * o.width + i] = i < found.size ? std::exp(found.items[i].score) : 0;
      }
    }
  });
}

} // namespace tagwood
