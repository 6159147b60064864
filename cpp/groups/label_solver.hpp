// How one label finds its rows: the steps of the group-robust embedding, with scratch that is used again.
//
// One label at a time, in the space of the features its rows use. The embedding e and the direction g it moves in are
// dense there, so one walk over a row gives its products with both; `EmbeddingPath` tells from old products which rows
// cannot have caught up with the closest row of their group. Those are not looked at again.
#pragma once

#include <vector>

#include "groups/embedding_path.hpp"
#include "groups/group_sums.hpp"
#include "groups/impute.hpp"
#include "groups/label_kernels.hpp"

namespace tagwood {

// The features of a row as a member of one group of the label.
struct Slot {
  const int32_t *indices;
  const float *data;
  int32_t size;
  int32_t row;
};

// What is known of a slot: its products with e and g as they were when `leg` began.
struct Known {
  float with_e, with_g;
  int32_t leg;
  bool picked;
};

class LabelSolver {
public:
  // `negative`: x has negative entries.
  LabelSolver(const GroupsView &groups, const GroupSums &sums, const ImputeSettings &settings, bool negative)
      : groups_(groups), sums_(sums), settings_(settings), negative_(negative), local_id_(groups.x.n_cols, -1) {}

  // Learns the embedding of a label; the two functions below read what was found.
  void solve(int64_t label);

  std::vector<Assignment> assignments();
  std::vector<EmbeddingEntry> embedding() const;

private:
  int64_t n_groups() const { return static_cast<int64_t>(group_starts_.size()) - 1; }
  double middle(const EmbeddingPath &path, const Known &known) const;
  double similarity(const Known &known) const { return middle(path_, known); }

  void collect(int64_t label);
  void sum_rows(int64_t label);
  void use_own_features(int64_t total);
  void start(int32_t place);
  bool start_from_sum(double n_rows);
  void break_symmetry(int32_t place);
  bool settled(int64_t group, const EmbeddingPath &path) const;
  void look_closer(int64_t group, double window);
  bool pick();
  bool jump_to_the_end(int n_steps);
  void turn_towards_picks();
  void measure(int64_t slot);
  void add(const Slot &slot, double weight);

  const GroupsView &groups_;
  const GroupSums &sums_;
  const ImputeSettings &settings_;
  const bool negative_;
  std::vector<int32_t> local_id_; // -1 between labels
  std::vector<int32_t> features_; // local to global; empty when the label uses the global numbers
  std::vector<int32_t> indices_;  // the slots' features in local numbers
  std::vector<Slot> slots_;
  std::vector<Known> known_;
  std::vector<int64_t> group_starts_;
  std::vector<int64_t> leads_; // the closest slot of each group when it was last looked for, -1 before
  EmbeddingPath path_;
  std::vector<Pair> pairs_;       // e and g as they were when the current leg began
  std::vector<double> sum_;       // of all rows at first, then of the picked ones
  std::vector<float> background_; // at the features the sum of the rows uses, 0 elsewhere
  int64_t n_picked_ = 0;
};

} // namespace tagwood
