// Training of one block: all its outputs see the same rows.
//
// The features of these rows are numbered anew, frequent ones first; the weights lie as [feature][lane], so that one
// pass over a row serves every lane with SIMD. Per block there is no work that grows with the number of features of x
// or of labels outside the block.
#pragma once

#include <memory>
#include <span>

#include "core/random.hpp"
#include "tree/sweeps.hpp"

namespace tagwood {

// Everything a thread needs, reused from block to block.
struct Workspace : LaneArrays {
  std::vector<int32_t> local_of;       // feature of x -> compact id, -1 outside the block
  std::vector<int32_t> position_of;    // row of x -> place in the block; read only for rows of the block
  std::vector<int32_t> row_of, counts; // place in the block -> row of x; uses of a feature
  std::vector<int32_t> by_count;       // room to number features in
  std::unique_ptr<float[]> weights_storage;
  size_t weights_capacity = 0;
  std::vector<float> alpha_storage, cost_storage;
  std::vector<Weight> kept, spare;
};

class BlockTraining {
public:
  BlockTraining(const CsrView &x, const TrainTasks &tasks, int64_t block, const TrainOptions &o, Workspace &ws);
  // The same with other rows, which must rise.
  BlockTraining(const CsrView &x, const TrainTasks &tasks, int64_t block, std::span<const int32_t> rows,
                const TrainOptions &o, Workspace &ws);
  BlockTraining(const BlockTraining &) = delete;
  ~BlockTraining();

  // Trains all outputs. A lane that has converged hands over its weights and takes the next output.
  TrainedBlock run();

  int64_t n_outputs() const { return n_outputs_; }
  int lanes() const { return lanes_; }

  // Trains as many outputs as there are lanes, from `first` on, on the rows whose places are in ws.sequence. Their
  // weights stay in the lanes, and are forgotten by the next call.
  void train_group(int64_t first);

  // The margins of the group's outputs for any rows of x: [row][lane].
  void group_margins(const CsrView &x, std::span<const int32_t> rows, float *margins) const;

private:
  // A few lanes, which are filled and emptied together: they share cache lines.
  struct Lanes {
    int lane[kMaxLanes];
    int n = 0;
    void add(int l) { lane[n++] = l; }
  };

  int32_t place_of(int32_t row) const;
  bool even_positives() const;
  void free_all(Lanes &free);
  void shuffle_and_sweep();
  bool settled(int lane) const { return state_.largest[lane] - state_.smallest[lane] <= o_.tolerance; }
  int fill(const Lanes &free, int64_t &next);
  void start(int lane, int64_t output);
  void empty(const Lanes &full);

  const TrainTasks &tasks_;
  const TrainOptions &o_;
  Workspace &ws_;
  int hash_bits_;
  int64_t first_output_, n_outputs_;
  int64_t n_rows_ = 0;
  int lanes_ = 16;
  float *costs_ = nullptr;
  int64_t output_of_[kMaxLanes];
  Random random_;
  LaneState state_;
};

} // namespace tagwood
