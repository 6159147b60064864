// How one label finds its rows: the steps of the group-robust embedding, with scratch that is used again.
//
// One label at a time, in the space of the features its rows use. The embedding e is dense there, so a similarity is
// one gather. Between two steps e moves by a known distance, and a row of norm 1 cannot gain or lose more than that:
// rows that cannot have caught up with the closest row of their group are not looked at again.
#pragma once

#include <vector>

#include "impute.hpp"

namespace tagwood {

// A row as a member of one group of the label.
struct Slot {
  int32_t row;
  bool picked;
  int64_t size;
  const int32_t *indices;
  const float *data;
  double similarity; // as it was when e had come `seen` far
  double seen;
};

class LabelSolver {
public:
  LabelSolver(const GroupsView &groups, const ImputeSettings &settings)
      : groups_(groups), settings_(settings), local_id_(groups.x.n_cols, -1) {}

  // Learns the embedding of a label; the two functions below read what was found.
  void solve(int64_t label);

  std::vector<Assignment> assignments();
  std::vector<EmbeddingEntry> embedding() const;

private:
  int64_t n_groups() const { return static_cast<int64_t>(group_starts_.size()) - 1; }

  void collect(int64_t label);
  void renumber();
  void start(int32_t place);
  bool start_from_sum(int64_t n_rows);
  void break_symmetry(int32_t place);
  bool pick();
  double step_towards_picks();
  bool refresh(int64_t group, double window, bool exact);
  double measure(Slot &slot);
  void add(const Slot &slot, double weight);

  const GroupsView &groups_;
  const ImputeSettings &settings_;
  std::vector<int32_t> local_id_; // -1 between labels
  std::vector<int32_t> features_; // local to global; empty when the label uses the global numbers
  std::vector<int32_t> indices_;  // the slots' features in local numbers
  std::vector<Slot> slots_;
  std::vector<int64_t> group_starts_;
  std::vector<int64_t> leads_; // the closest slot of each group when it was last looked for
  std::vector<float> e_;
  std::vector<double> sum_;
  std::vector<double> background_; // at the features the sum of the rows uses, 0 elsewhere
  std::vector<double> direction_;  // the sum less the background of its rows
  int64_t n_picked_ = 0;
  double way_ = 0; // how far e has moved since the start
};

} // namespace tagwood
