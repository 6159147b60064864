// Exact best-first search, and margins of given outputs. Compiled apart from the beam search, which would get slower.
#include "tree/search.hpp"

namespace tagwood {

namespace {

constexpr int64_t kChunk = 1024; // rows that a thread takes at a time

} // namespace

void exact_search(const ModelView &model, const CsrView &x, const SearchOptions &o, const SearchOutput &out) {
  const auto worse = [](const Scored &a, const Scored &b) { return better(b, a); };
  for_chunks(model, x.n_rows, o.threads, kChunk, [&](int64_t begin, int64_t end, Scratch &s) {
    s.results.resize(o.k);
    s.rows.assign(x, begin, end, model.blocks.feature_bits);
    for (int64_t row = begin; row < end; ++row) {
      auto &open = s.open; // a heap of nodes, best on top
      open.assign(1, {0.0f, 0});
      Best best{s.results.data(), 0, o.k};
      int32_t evaluated = 0;
      int64_t outputs = 0;
      while (!open.empty()) {
        if (best.full() && best.items[o.k - 1].score >= open.front().score)
          break; // every factor is at most 1: nothing still open can be better
        if (o.max_nodes > 0 && evaluated >= o.max_nodes)
          break;
        std::pop_heap(open.begin(), open.end(), worse);
        const Scored node = open.back();
        open.pop_back();
        score_outputs(model, node.id, node.score, row - begin, s);
        ++evaluated;
        outputs += model.tree.n_outputs(node.id);
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
          if (!is_allowed(model, o, ids[c]))
            continue;
          if (o.has_copies)
            best.offer_once({s.margins[c], ids[c]});
          else
            best.offer({s.margins[c], ids[c]});
        }
      }
      write_row(model, o, best, row, out);
      out.evaluated[row] = evaluated;
      out.outputs[row] = outputs;
      const bool missed = !open.empty() && !(best.full() && best.items[o.k - 1].score >= open.front().score);
      out.bound[row] = missed ? std::exp(open.front().score) : 0.0f;
    }
  });
}

void margins(const ModelView &model, const CsrView &x, const int64_t *ptr, const int32_t *nodes, const int32_t *outputs,
             int threads, float *out) {
  for_chunks(model, x.n_rows, threads, kChunk, [&](int64_t begin, int64_t end, Scratch &s) {
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

void open_nodes(const ModelView &model, const CsrView &x, const int64_t *ptr, const int32_t *nodes, const float *scores,
                const int64_t *out_ptr, int threads, float *logs, float *probabilities) {
  for_chunks(model, x.n_rows, threads, kChunk, [&](int64_t begin, int64_t end, Scratch &s) {
    s.rows.assign(x, begin, end, model.blocks.feature_bits);
    for (int64_t row = begin; row < end; ++row)
      for (int64_t i = ptr[row]; i < ptr[row + 1]; ++i) {
        score_outputs(model, nodes[i], scores[i], row - begin, s);
        for (int64_t at = out_ptr[i]; at < out_ptr[i + 1]; ++at) {
          logs[at] = s.margins[at - out_ptr[i]];
          probabilities[at] = std::exp(logs[at]);
        }
      }
  });
}

} // namespace tagwood
