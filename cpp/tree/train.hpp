// Training of the linear classifiers of a label tree, block by block.
//
// First the functions that Python calls, then what they are made of: sweeps over the rows of a block, and the training
// of one block.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/arrays.hpp"
#include "core/random.hpp"
#include "tree/blocks.hpp"
#include "tree/search.hpp"

namespace tagwood {

// The rows of each node: those with a label below it.
struct NodeRows {
  std::vector<int64_t> ptr;   // n_nodes + 1
  std::vector<int32_t> rows;  // rising inside a node
  std::vector<float> weights; // the largest weight of the row's labels below the node
};

// `label_rows` is Y transposed, one row per label, with the weight of each entry; `parent`, `label_ptr` and `labels`
// describe the tree (breadth-first numbering).
NodeRows node_rows(const CsrView &label_rows, const int32_t *parent, const int32_t *label_ptr, const int32_t *labels,
                   int32_t n_nodes, int64_t n_rows, int threads);

enum class Loss : int { squared_hinge = 0, logistic = 1 };

struct TrainOptions {
  Loss loss = Loss::squared_hinge;
  double cost = 1;        // C: the weight of a row's loss against the regulariser
  double bias = 1;        // value of the constant feature
  double tolerance = 0.1; // stop when the largest violation of a sweep spans no more
  int max_sweeps = 100;
  double threshold = 0.1; // smaller weights are dropped
  WeightType weight_type = WeightType::float16;
  uint64_t seed = 0;
  int threads = 1;
  // Blocks with more stored features are read from x anew in every sweep, so many at a time; 0 copies all blocks.
  int64_t chunk_entries = 0;
  bool mapped = false; // x is a map of files: pages that have been read are released (see core/pages.hpp)
};

// Weights to start from: block b has the entries ptr[b]:ptr[b + 1] in any order, each a feature of x and an output of
// the block; bias has one number per output of all blocks, and stays. All null: start from zero.
struct StartWeights {
  const int64_t *ptr = nullptr;
  const int32_t *features = nullptr, *columns = nullptr;
  const float *values = nullptr;
  const float *bias = nullptr;
};

// Rows that some blocks see for a few of their outputs only: `guest` has one number per place of TrainTasks::rows, 1
// for such a row. Output o counts its positives and negatives[negative_begin[o]:negative_end[o]] among them; the others
// have the least weight there is. All null: no such rows.
struct GuestRows {
  const uint8_t *guest = nullptr;
  const int64_t *negative_begin = nullptr, *negative_end = nullptr;
  const int32_t *negatives = nullptr;
};

// What to train: block b sees the rows rows[row_begin[b]:row_end[b]] and has the outputs
// output_ptr[b]:output_ptr[b + 1]; output o is positive on positives[positive_begin[o]:positive_end[o]].
// positive_weights (may be null) belong to the positives, row_weights (may be null) to rows of x.
// seeds: one number per block, so that a block's result does not depend on which others are trained with it.
struct TrainTasks {
  const int64_t *row_begin, *row_end;
  const int32_t *rows;
  const int64_t *output_ptr;
  const int64_t *positive_begin, *positive_end;
  const int32_t *positives;
  const float *positive_weights;
  const float *row_weights;
  const int64_t *seeds;
  int64_t n_blocks;
  StartWeights start = {};
  GuestRows guests = {};

  std::span<const int32_t> rows_of(int64_t block) const {
    return {rows + row_begin[block], static_cast<size_t>(row_end[block] - row_begin[block])};
  }
};

struct TrainedBlock {
  PackedBlock packed;
  std::vector<float> bias; // one per output, already times the constant feature
  int64_t visits = 0;      // of rows, over all outputs
};

std::vector<TrainedBlock> train_blocks(const CsrView &x, const TrainTasks &tasks, const TrainOptions &options);

// Matches training rows to leaves with classifiers that have not seen them: the rows are in two halves, and each half
// is matched by classifiers trained on the other.
struct UnseenOptions {
  const uint8_t *second_half; // per row of x
  int width;                  // of the beam
  int followed;               // the best inner nodes of a beam, which are expanded
  Link link;
};

// Writes the leaves at the end of the beam: `width` places per row, unused ones -1. The blocks of `tasks` are the nodes
// of the tree, breadth first, and their outputs the children: node i has child_ptr[i] .. child_ptr[i + 1].
void match_unseen(const CsrView &x, const TrainTasks &tasks, const int32_t *child_ptr, const TrainOptions &training,
                  const UnseenOptions &options, int32_t *leaves);

// The rows of a block in their compact feature space.
struct LocalRows {
  std::vector<int64_t> ptr;
  std::vector<uint32_t> features;
  std::vector<const float *> values; // of each row, in x: copying the largest block would set the peak memory of a fit
  std::vector<float> squared_norm;   // with the constant feature
  std::vector<int32_t> feature_of;
  int64_t size() const { return static_cast<int64_t>(squared_norm.size()); }
};

constexpr int kMaxLanes = 16;

// Input and output of a sweep of dual coordinate descent over the rows of a block, up to 16 outputs at a time.
struct LaneArrays {
  LocalRows rows;
  float *weights = nullptr;       // [feature][lane], aligned to 64 bytes
  float *alpha = nullptr;         // [row][lane]: the dual variables
  std::vector<uint16_t> positive; // per row, one bit per lane
  std::vector<int32_t> sequence;  // order of visits
  std::vector<int32_t> moved;     // the rows that a sweep has moved, as they were visited
};

// State of the lanes between sweeps.
struct alignas(64) LaneState {
  float bias[kMaxLanes] = {};
  float active[kMaxLanes] = {};  // 1 where the lane has an output
  float largest[kMaxLanes] = {}; // projected gradients of the present sweep
  float smallest[kMaxLanes] = {};
  const float *costs = nullptr;            // [row][lane] 1/(2C) per entry, or null where all are equal
  float diagonal_positive[kMaxLanes] = {}; // the same for the lane's positives
  float diagonal = 0.5f;                   // 1/(2C)
  float settled = 0;                       // smaller projected gradients cause no update
  float bias_value = 1;
  float bias_step = 1; // the same, or 0 where the bias stays
};

// Visits the rows of arrays.sequence; lanes is 4, 8 or 16.
void sweep(LaneArrays &arrays, LaneState &state, int lanes, Loss loss);

// Rows of x to multiply with the weights of each lane. Features outside the block have no weight.
struct RowMargins {
  const CsrView &x;
  std::span<const int32_t> rows;
  const float *weights;    // [feature][lane]
  const int32_t *local_of; // feature of x -> feature of the block, or -1
  const float *bias;       // per lane
  float *margins;          // [row][lane], to be filled
};

void find_margins(const RowMargins &task, int lanes);

// Memory of one thread, reused from block to block.
struct Workspace : LaneArrays {
  std::vector<int32_t> local_of;       // feature of x -> compact id, -1 outside the block
  std::vector<int32_t> position_of;    // row of x -> place in the block; read only for rows of the block
  std::vector<int32_t> row_of, counts; // place in the block -> row of x; uses of a feature
  std::vector<int32_t> trained;        // places of the rows that sweeps visit
  std::vector<int32_t> by_count;       // scratch for numbering features
  std::unique_ptr<float[]> weights_storage;
  size_t weights_capacity = 0;
  std::vector<float> alpha_storage, cost_storage;
  std::vector<Weight> kept, spare;
  std::vector<Weight> start; // weights to start from, by output; `hash` is the compact id of the feature
  std::vector<int64_t> start_ptr;
  // The next rows of a sweep over a block that is read in chunks, in the order in which they are visited.
  LaneArrays chunk;
  std::vector<float> chunk_values, chunk_alpha, chunk_costs;
  std::vector<int32_t> chunk_order; // their visits, by place in the block
};

// Training of one block: all its outputs see the same rows.
//
// The features of these rows are renumbered, frequent ones first; the weights are stored as [feature][lane], so that
// one pass over a row serves every lane with SIMD. No work per block grows with the number of features of x or of
// labels outside the block.
class BlockTraining {
public:
  BlockTraining(const CsrView &x, const TrainTasks &tasks, int64_t block, const TrainOptions &o, Workspace &ws);
  // The same with other rows, in rising order.
  BlockTraining(const CsrView &x, const TrainTasks &tasks, int64_t block, std::span<const int32_t> rows,
                const TrainOptions &o, Workspace &ws);
  BlockTraining(const BlockTraining &) = delete;
  ~BlockTraining();

  // Trains all outputs, as many at a time as there are lanes.
  TrainedBlock run();

  int64_t n_outputs() const { return n_outputs_; }
  int lanes() const { return lanes_; }

  // Trains as many outputs as there are lanes, from `first` on, on the rows whose places are in ws.trained. Their
  // weights stay in the lanes until the next call.
  void train_group(int64_t first);

  // The margins of the group's outputs for any rows of x: [row][lane].
  void group_margins(const CsrView &x, std::span<const int32_t> rows, float *margins) const;

private:
  int32_t place_of(int32_t row) const;
  float row_weight(int64_t place) const;
  bool even_positives() const;
  void weigh_entries();
  void welcome(int32_t row, int lane);
  int64_t settle();
  int stop_settled();
  void shuffle_and_sweep();
  void sweep_chunks();
  void load_chunk(int64_t begin, int64_t end, int64_t entries);
  bool settled(int lane) const { return state_.largest[lane] - state_.smallest[lane] <= o_.tolerance; }
  int fill(int64_t first);
  void start(int lane, int64_t output);
  void read_start(int64_t block);
  void take_weights(int64_t first);

  const CsrView &x_;
  const TrainTasks &tasks_;
  const TrainOptions &o_;
  Workspace &ws_;
  bool chunked_ = false; // rows are read in chunks
  int hash_bits_;
  int64_t first_output_, n_outputs_;
  int64_t n_rows_ = 0;
  int lanes_ = 16;
  float threshold_; // smaller weights are dropped
  float *costs_ = nullptr;
  const uint8_t *guest_ = nullptr; // per row of the block; null where there are none
  std::vector<int64_t> order_;     // in which outputs are trained
  Random random_;
  LaneState state_;
};

} // namespace tagwood
