// Group-robust label embeddings: to which rows of each group does a label belong?
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/arrays.hpp"

namespace tagwood {

// Rows of x have norm 1 (or 0). Group j holds group_rows[group_indptr[j] : group_indptr[j + 1]]; label l belongs to the
// groups label_groups[label_indptr[l] : label_indptr[l + 1]]; label_starts[l] is its place in the order in which labels
// take the rows of a group whose rows cancel out; `mean` (one number per feature) is that of the rows of all groups.
// `contrast` times the mean of the rows of the groups without a label is subtracted from every row of its sums.
struct GroupsView {
  CsrView x;
  const int64_t *group_indptr;
  const int32_t *group_rows;
  const int64_t *label_indptr;
  const int32_t *label_groups;
  const int32_t *label_starts;
  const float *mean;
  double contrast;
  int64_t n_groups;
  int64_t n_labels;
};

struct ImputeSettings {
  int steps;
  double step_size;
  double margin; // rows less than this share of its cosine behind the closest row of their group share the label
};

struct Assignment {
  int32_t row;
  float similarity;
  float share;
};

struct EmbeddingEntry {
  int32_t feature;
  float value;
};

// For each label the rows it is given to, by rising row.
std::vector<std::vector<Assignment>> impute_groups(const GroupsView &groups, const ImputeSettings &settings,
                                                   int threads);

// For each label its embedding, by rising feature, zeros left out.
std::vector<std::vector<EmbeddingEntry>> embed_groups(const GroupsView &groups, const ImputeSettings &settings,
                                                      int threads);

// The sum of the rows of each group, from which all labels of the group start.
class GroupSums {
public:
  // Sums that would take more than `limit` entries are not kept: each label then adds up the rows.
  GroupSums(const GroupsView &groups, int64_t limit, int threads);

  // Calls use(feature, value) for parts that add up to the sum of the group.
  template <class Use> void for_each(int32_t group, Use &&use) const {
    if (!sums_.empty()) {
      for (const EmbeddingEntry &entry : sums_[group])
        use(entry.feature, entry.value);
      return;
    }
    const CsrView &x = groups_.x;
    for (int64_t i = groups_.group_indptr[group]; i < groups_.group_indptr[group + 1]; ++i)
      for (int64_t at = x.indptr[groups_.group_rows[i]]; at < x.indptr[groups_.group_rows[i] + 1]; ++at)
        use(x.indices[at], x.data[at]);
  }

private:
  const GroupsView &groups_;
  std::vector<std::vector<EmbeddingEntry>> sums_;
};

// How one label finds its rows: the steps of the group-robust embedding.
//
// One label at a time, in the space of the features its rows use. The embedding e and the direction g it moves in are
// dense there, so one pass over a row gives its products with both; `EmbeddingPath` tells from old products which rows
// cannot have caught up with the closest row of their group. Those are skipped.

// One feature of e and g, side by side because they are always read together.
struct Pair {
  float e, g;
};

struct Products {
  float with_e, with_g;
};

// The products of a row with e and g.
Products products(const int32_t *indices, const float *data, int64_t size, const Pair *pairs);

// The squared length of sum - n_rows * background.
double squared_length(const double *sum, const float *background, double n_rows, int64_t size);

struct Turn {
  double ee, eg, risen, fallen; // the squared sums of what g gained and lost
};

// e <- keep * e + add * g, g <- scale * (sum - n_rows * background).
Turn turn(Pair *pairs, const double *sum, const float *background, int64_t size, float keep, float add, double n_rows,
          double scale);

// Where a label embedding e is, relative to earlier points of its path: the bounds by which rows are skipped.
//
// e moves by e <- normalise(e + step * g), where g, of norm 1, changes only when a group changes its pick. A leg is a
// stretch of steps with the same g. Since leg l began, e has become keep * e_l + add * g_l + rest. The products
// of a row with e_l and g_l tell how close it is now: exactly in the same leg, in later ones up to its product with the
// rest, which is between -fall and rise for a row of norm 1.

// Bounds of the product of a row of norm 1 with some vector.
struct Reach {
  double rise, fall;
};

struct Leg {
  double keep, add;
  Reach rest;
  Reach turned; // of g - g_l
};

class EmbeddingPath {
public:
  // Leg 0 is that of rows never measured; leg 1 begins at the first e, without a direction.
  void restart() {
    constexpr double far = std::numeric_limits<double>::infinity();
    legs_.assign(1, {0, 0, {far, far}, {0, 0}});
    begin_leg({0, 0}, 1, 0, false);
  }

  // A new direction g, `turned` away from the last one; `ee` and `eg` are the products of e with e and g.
  void begin_leg(Reach turned, double ee, double eg, bool has_direction) {
    for (Leg &leg : legs_) {
      leg.turned.rise += turned.rise;
      leg.turned.fall += turned.fall;
    }
    legs_.push_back({1, 0, {0, 0}, {0, 0}});
    ee_ = ee;
    eg_ = eg;
    has_direction_ = has_direction;
  }

  // e <- normalise(e + step * g); without a direction, and where e would vanish, nothing moves.
  void advance(double step) {
    const double norm = std::sqrt(std::max(0.0, ee_ + 2 * step * eg_ + step * step));
    if (!has_direction_ || !(norm > kVanished))
      return;
    for (Leg &leg : legs_) {
      leg.keep /= norm;
      leg.add = (leg.add + step) / norm;
      leg.rest.rise = (leg.rest.rise + step * leg.turned.rise) / norm;
      leg.rest.fall = (leg.rest.fall + step * leg.turned.fall) / norm;
    }
    eg_ = (eg_ + step) / norm;
    ee_ = 1;
  }

  const Leg &operator[](int32_t leg) const { return legs_[static_cast<size_t>(leg)]; }
  int32_t current() const { return static_cast<int32_t>(legs_.size()) - 1; }

private:
  static constexpr double kVanished = 1e-5;
  std::vector<Leg> legs_;
  double ee_ = 0, eg_ = 0;
  bool has_direction_ = false;
};

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

  // Learns the embedding of a label; the two functions below return the result.
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
  void find_background();
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
  std::vector<int64_t> leads_; // the closest slot of each group when last searched, -1 before
  EmbeddingPath path_;
  std::vector<Pair> pairs_;       // e and g as they were when the current leg began
  std::vector<double> sum_;       // of all rows at first, then of the picked ones
  std::vector<float> background_; // of the label, at the features the sum of its rows uses, 0 elsewhere
  int64_t n_picked_ = 0;
};

} // namespace tagwood
