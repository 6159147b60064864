#include <vector>

#include "core/parallel.hpp"
#include "softmax/math.hpp"

namespace tagwood {

namespace {

constexpr int64_t kChunk = 64; // rows that a thread takes at a time

// Scratch of one thread.
struct Trainer {
  std::vector<float> space;
  std::vector<float> steps;
  float *hidden = nullptr;
  float *gradient = nullptr;

  void reserve(int64_t dimension) {
    space.assign(2 * dimension + 32, 0.0f);
    const auto address = reinterpret_cast<uintptr_t>(space.data());
    hidden = space.data() + (64 - address % 64) % 64 / sizeof(float);
    gradient = hidden + (dimension + 15) / 16 * 16;
  }
};

struct Epoch {
  const CsrView &x;
  const CsrView &labels;
  const PathsView &paths;
  const int32_t *order;
  int64_t n_order;
  const EpochOptions &options;
  const Embeddings<float> &model;
};

// Moves the vectors on the way to one label, and adds what the hidden vector should move by to `gradient`.
TAGWOOD_INLINE void follow_path(const Embeddings<float> &model, const int32_t *path, int64_t n_steps, float rate,
                                Trainer &t) {
  const int64_t dimension = model.dimension;
  if (static_cast<int64_t>(t.steps.size()) < n_steps)
    t.steps.resize(n_steps);
  float *steps = t.steps.data();
  for (int64_t s = 0; s < n_steps; ++s)
    prefetch_row(model.outputs + (path[s] >> 1) * dimension, dimension);
  for (int64_t s = 0; s < n_steps; ++s)
    steps[s] = dot(t.hidden, model.outputs + (path[s] >> 1) * dimension, dimension);
  for (int64_t s = 0; s < n_steps; ++s)
    steps[s] = rate * (static_cast<float>(path[s] & 1) - sigmoid(steps[s]));
  const Lane *hidden = lanes(t.hidden);
  Lane *gradient = lanes(t.gradient);
  for (int64_t s = 0; s < n_steps; ++s) {
    Lane *output = lanes(model.outputs + (path[s] >> 1) * dimension);
    const float step = steps[s];
    for (int64_t j = 0; j < dimension / kLane; ++j) {
      const Lane before = output[j];
      gradient[j] += step * before;
      output[j] = before + step * hidden[j];
    }
  }
}

TAGWOOD_HOT void train_rows(const Epoch &e, int64_t begin, int64_t end, Trainer &t) {
  const int64_t dimension = e.model.dimension;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = e.order[i];
    const auto labels = e.labels.row_indices(row);
    const auto features = e.x.row_indices(row);
    const auto weights = e.x.row_data(row);
    if (labels.empty() || features.empty())
      continue;
    const float done = static_cast<float>(static_cast<double>(i) / static_cast<double>(e.n_order));
    const float rate = e.options.first_rate + done * (e.options.last_rate - e.options.first_rate);
    weighted_sum(e.model.inputs, dimension, features, weights, t.hidden);
    std::fill_n(t.gradient, dimension, 0.0f);
    for (const int32_t label : labels)
      follow_path(e.model, e.paths.steps + e.paths.ptr[label], e.paths.ptr[label + 1] - e.paths.ptr[label], rate, t);
    add_to_rows(e.model.inputs, dimension, features, weights, t.gradient);
  }
}

} // namespace

void softmax_epoch(const CsrView &x, const CsrView &labels, const PathsView &paths, const int32_t *order,
                   int64_t n_order, const EpochOptions &options, const Embeddings<float> &model) {
  const Epoch epoch{x, labels, paths, order, n_order, options, model};
  std::vector<Trainer> trainers(std::max(1, options.threads));
  for (Trainer &trainer : trainers)
    trainer.reserve(model.dimension);
  parallel_chunks(n_order, options.threads, kChunk,
                  [&](int64_t begin, int64_t end, int thread) { train_rows(epoch, begin, end, trainers[thread]); });
}

} // namespace tagwood
