#include "search.hpp"

#include <algorithm>
#include <cmath>

#include "evaluate.hpp"
#include "parallel.hpp"

namespace tagwood {

namespace {

struct Scored {
  float score; // log
  int32_t id;
};

// The one order of results: higher score first, then smaller id. With it the order of arrival does not matter, so
// rows searched one by one and rows searched together get the same answer.
bool better(const Scored &a, const Scored &b) { return a.score != b.score ? a.score > b.score : a.id < b.id; }

// The best `capacity` items so far, best first, in memory that the caller owns.
struct Best {
  Scored *items;
  int size = 0;
  int capacity;
  bool full() const { return size == capacity; }
  void offer(Scored item) {
    if (size == capacity) {
      if (!better(item, items[size - 1]))
        return;
    } else {
      ++size;
    }
    int at = size - 1;
    for (; at > 0 && better(item, items[at - 1]); --at)
      items[at] = items[at - 1];
    items[at] = item;
  }
};

// One node to evaluate for one row.
struct Visit {
  int32_t node;
  int32_t row; // inside the chunk
  float score;
};

struct Scratch {
  std::vector<Scored> beams, next_beams, results, candidates;
  std::vector<int> sizes, next_sizes, result_sizes;
  std::vector<std::vector<Scored>> row_candidates; // only for labels with copies
  std::vector<Visit> visits, sorted;
  std::vector<int32_t> counts;
  std::vector<float> margins;
  HashedRows rows;
};

// Joins copies of a label: their best score, or the mean of their probabilities; `items` is reordered.
void merge_copies(std::vector<Scored> &items, bool mean) {
  std::sort(items.begin(), items.end(),
            [](const Scored &a, const Scored &b) { return a.id != b.id ? a.id < b.id : a.score > b.score; });
  size_t kept = 0;
  for (size_t i = 0; i < items.size();) {
    size_t j = i;
    double total = 0;
    for (; j < items.size() && items[j].id == items[i].id; ++j)
      total += std::exp(static_cast<double>(items[j].score));
    Scored merged = items[i];
    if (mean && j - i > 1)
      merged.score = static_cast<float>(std::log(total / static_cast<double>(j - i)));
    items[kept++] = merged;
    i = j;
  }
  items.resize(kept);
}

// Visits in the order of their nodes, so that a node's weights are read once for all rows that need them.
void sort_visits(Scratch &s, int32_t n_nodes) {
  if (s.visits.size() < 64) {
    std::sort(s.visits.begin(), s.visits.end(), [](const Visit &a, const Visit &b) { return a.node < b.node; });
    return;
  }
  if (static_cast<size_t>(n_nodes) > 4 * s.visits.size()) {
    std::stable_sort(s.visits.begin(), s.visits.end(), [](const Visit &a, const Visit &b) { return a.node < b.node; });
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

// Level by level for the rows begin..end; leaves rest in the beam until everything in it is a leaf.
class BeamChunk {
public:
  BeamChunk(const ModelView &model, const CsrView &x, const SearchOptions &o, int64_t begin, int64_t end, Scratch &s)
      : model_(model), o_(o), begin_(begin), n_(end - begin), s_(s) {
    s.beams.resize(n_ * o.width);
    s.next_beams.resize(n_ * o.width);
    s.sizes.assign(n_, 1);
    s.next_sizes.resize(n_);
    for (int64_t r = 0; r < n_; ++r)
      s.beams[r * o.width] = {0.0f, 0};
    s.rows.assign(x, begin, end, model.blocks.feature_bits);
  }

  void descend(int32_t *evaluated) {
    while (true) {
      s_.visits.clear();
      std::fill(s_.next_sizes.begin(), s_.next_sizes.end(), 0);
      for (int64_t r = 0; r < n_; ++r) {
        Best next = next_beam(r);
        for (int i = 0; i < s_.sizes[r]; ++i) {
          const Scored item = s_.beams[r * o_.width + i];
          if (model_.tree.is_leaf(item.id))
            next.offer(item);
          else
            s_.visits.push_back({item.id, static_cast<int32_t>(r), item.score});
        }
        s_.next_sizes[r] = next.size;
      }
      if (s_.visits.empty())
        return; // the beams are all leaves
      sort_visits(s_, model_.tree.n_nodes);
      for (const Visit &visit : s_.visits) {
        evaluate(visit, evaluated);
        Best next = next_beam(visit.row);
        const int32_t first = model_.tree.child_ptr[visit.node];
        const int n = model_.tree.child_ptr[visit.node + 1] - first;
        for (int c = 0; c < n; ++c)
          if (!o_.node_allowed || o_.node_allowed[first + c])
            next.offer({s_.margins[c], first + c});
        s_.next_sizes[visit.row] = next.size;
      }
      std::swap(s_.beams, s_.next_beams);
      std::swap(s_.sizes, s_.next_sizes);
    }
  }

  // Labels of the leaves in the beams. A row's leaves are opened in rounds, best first: a leaf whose own score is below
  // the k labels found so far cannot hold a better one, and is left shut.
  void labels(const SearchOutput &out) {
    s_.results.resize(n_ * o_.k);
    s_.result_sizes.assign(n_, 0);
    if (o_.has_copies) {
      s_.row_candidates.resize(n_);
      for (auto &row : s_.row_candidates)
        row.clear();
    }
    for (int first = 0, last = 1; first < o_.width; first = last, last += std::max(1, last / 2)) {
      s_.visits.clear();
      for (int64_t r = 0; r < n_; ++r) {
        const Best best = results(r);
        for (int i = first; i < std::min(last, s_.sizes[r]); ++i) {
          const Scored leaf = s_.beams[r * o_.width + i];
          if (!best.full() || best.items[o_.k - 1].score <= leaf.score)
            s_.visits.push_back({leaf.id, static_cast<int32_t>(r), leaf.score});
        }
      }
      sort_visits(s_, model_.tree.n_nodes);
      for (const Visit &visit : s_.visits)
        open_leaf(visit, out.evaluated);
    }
    for (int64_t r = 0; r < n_; ++r) {
      Best best = results(r);
      if (o_.has_copies) {
        merge_copies(s_.row_candidates[r], o_.mean_copies);
        for (const Scored &item : s_.row_candidates[r])
          best.offer(item);
      }
      write(best, begin_ + r, out);
      out.bound[begin_ + r] = -1;
    }
  }

  bool is_allowed(int32_t label) const {
    return static_cast<uint32_t>(label) < static_cast<uint32_t>(model_.tree.n_labels) && o_.label_allowed[label];
  }

  void write(const Best &best, int64_t row, const SearchOutput &out) const {
    int found = 0;
    for (int i = 0; i < best.size; ++i) {
      if (static_cast<uint32_t>(best.items[i].id) >= static_cast<uint32_t>(model_.tree.n_labels))
        continue; // a forged model: nobody may index with such a label
      out.labels[row * o_.k + found] = best.items[i].id;
      out.scores[row * o_.k + found++] = std::exp(best.items[i].score);
    }
    out.found[row] = found;
    for (int i = found; i < o_.k; ++i) {
      out.labels[row * o_.k + i] = -1;
      out.scores[row * o_.k + i] = 0;
    }
  }

private:
  Best results(int64_t r) { return {s_.results.data() + r * o_.k, s_.result_sizes[r], o_.k}; }

  // With copies every label of an open leaf is kept until the copies are merged, so that no leaf is ever left shut.
  void open_leaf(const Visit &visit, int32_t *evaluated) {
    evaluate(visit, evaluated);
    const int32_t *ids = model_.tree.labels + model_.tree.label_ptr[visit.node];
    const int n = model_.tree.label_ptr[visit.node + 1] - model_.tree.label_ptr[visit.node];
    Best best = results(visit.row);
    for (int c = 0; c < n; ++c) {
      if (o_.label_allowed && !is_allowed(ids[c]))
        continue;
      if (o_.has_copies)
        s_.row_candidates[visit.row].push_back({s_.margins[c], ids[c]});
      else
        best.offer({s_.margins[c], ids[c]});
    }
    s_.result_sizes[visit.row] = best.size;
  }

  Best next_beam(int64_t r) { return {s_.next_beams.data() + r * o_.width, s_.next_sizes[r], o_.width}; }

  void evaluate(const Visit &visit, int32_t *evaluated) {
    const int64_t row = begin_ + visit.row;
    evaluate_node(model_, visit.node, s_.rows.hashes(visit.row), s_.rows.values(visit.row), s_.margins.data());
    apply_link(model_.link, s_.margins.data(), model_.tree.n_outputs(visit.node), visit.score);
    if (evaluated)
      ++evaluated[row];
  }

  const ModelView &model_;
  const SearchOptions &o_;
  int64_t begin_, n_;
  Scratch &s_;
};

// Rows searched together: enough to share a node's weights, few enough that their beams stay in cache.
constexpr int64_t kChunk = 1024;

int64_t chunk_size(int64_t n_rows, int threads) {
  return std::clamp<int64_t>((n_rows + threads - 1) / std::max(1, threads), 1, kChunk);
}

template <class Body> void for_chunks(const ModelView &model, int64_t n_rows, int threads, Body &&body) {
  static thread_local Scratch own;               // a single row allocates nothing once the sizes are known
  const int most = model.tree.max_outputs + 256; // a block may touch any of 256 columns
  if (n_rows == 1) {
    own.margins.resize(most);
    body(0, 1, own);
    return;
  }
  std::vector<Scratch> scratches(std::max(1, threads));
  parallel_chunks(n_rows, threads, chunk_size(n_rows, threads), [&](int64_t begin, int64_t end, int thread) {
    scratches[thread].margins.resize(most);
    body(begin, end, scratches[thread]);
  });
}

} // namespace

void beam_search(const ModelView &model, const CsrView &x, const SearchOptions &o, const SearchOutput &out) {
  for_chunks(model, x.n_rows, o.threads, [&](int64_t begin, int64_t end, Scratch &s) {
    std::fill(out.evaluated + begin, out.evaluated + end, 0);
    BeamChunk chunk(model, x, o, begin, end, s);
    chunk.descend(out.evaluated);
    chunk.labels(out);
  });
}

void beam_leaves(const ModelView &model, const CsrView &x, const SearchOptions &o, int32_t *leaves, float *scores) {
  for_chunks(model, x.n_rows, o.threads, [&](int64_t begin, int64_t end, Scratch &s) {
    BeamChunk chunk(model, x, o, begin, end, s);
    chunk.descend(nullptr);
    for (int64_t r = 0; r < end - begin; ++r)
      for (int i = 0; i < o.width; ++i) {
        const bool used = i < s.sizes[r];
        leaves[(begin + r) * o.width + i] = used ? s.beams[r * o.width + i].id : -1;
        scores[(begin + r) * o.width + i] = used ? std::exp(s.beams[r * o.width + i].score) : 0;
      }
  });
}

void exact_search(const ModelView &model, const CsrView &x, const SearchOptions &o, const SearchOutput &out) {
  const auto worse = [](const Scored &a, const Scored &b) { return better(b, a); };
  for_chunks(model, x.n_rows, o.threads, [&](int64_t begin, int64_t end, Scratch &s) {
    BeamChunk writer(model, x, o, begin, begin, s);
    s.results.resize(o.k);
    s.rows.assign(x, begin, end, model.blocks.feature_bits);
    for (int64_t row = begin; row < end; ++row) {
      auto &open = s.candidates; // a heap of nodes, best on top
      open.assign(1, {0.0f, 0});
      Best best{s.results.data(), 0, o.k};
      int32_t evaluated = 0;
      while (!open.empty()) {
        if (best.full() && best.items[o.k - 1].score >= open.front().score)
          break; // every factor is at most 1: nothing still open can be better
        if (o.max_nodes > 0 && evaluated >= o.max_nodes)
          break;
        std::pop_heap(open.begin(), open.end(), worse);
        const Scored node = open.back();
        open.pop_back();
        evaluate_node(model, node.id, s.rows.hashes(row - begin), s.rows.values(row - begin), s.margins.data());
        apply_link(model.link, s.margins.data(), model.tree.n_outputs(node.id), node.score);
        ++evaluated;
        const int32_t first = model.tree.child_ptr[node.id];
        const int n_children = model.tree.child_ptr[node.id + 1] - first;
        for (int c = 0; c < n_children; ++c) {
          if (o.node_allowed && !o.node_allowed[first + c])
            continue;
          if (best.full() && s.margins[c] <= best.items[o.k - 1].score)
            continue;
          open.push_back({s.margins[c], first + c});
          std::push_heap(open.begin(), open.end(), worse);
        }
        const int32_t *ids = model.tree.labels + model.tree.label_ptr[node.id];
        const int n_labels = model.tree.label_ptr[node.id + 1] - model.tree.label_ptr[node.id];
        for (int c = 0; c < n_labels; ++c) {
          if (o.label_allowed && !writer.is_allowed(ids[c]))
            continue;
          const Scored item{s.margins[c], ids[c]};
          if (o.has_copies) { // the best copy counts: drop the other one
            int at = 0;
            while (at < best.size && best.items[at].id != item.id)
              ++at;
            if (at < best.size) {
              if (!better(item, best.items[at]))
                continue;
              std::copy(best.items + at + 1, best.items + best.size, best.items + at);
              --best.size;
            }
          }
          best.offer(item);
        }
      }
      writer.write(best, row, out);
      out.evaluated[row] = evaluated;
      const bool missed = !open.empty() && !(best.full() && best.items[o.k - 1].score >= open.front().score);
      out.bound[row] = missed ? std::exp(open.front().score) : 0.0f;
    }
  });
}

void margins(const ModelView &model, const CsrView &x, const int64_t *ptr, const int32_t *nodes, const int32_t *outputs,
             int threads, float *out) {
  for_chunks(model, x.n_rows, threads, [&](int64_t begin, int64_t end, Scratch &s) {
    s.rows.assign(x, begin, end, model.blocks.feature_bits);
    for (int64_t row = begin; row < end; ++row) {
      int32_t last = -1; // callers sort by node, so equal nodes are neighbours
      for (int64_t i = ptr[row]; i < ptr[row + 1]; ++i) {
        if (nodes[i] != last) {
          evaluate_node(model, nodes[i], s.rows.hashes(row - begin), s.rows.values(row - begin), s.margins.data());
          last = nodes[i];
        }
        out[i] = s.margins[outputs[i]];
      }
    }
  });
}

} // namespace tagwood
