#include "label_solver.hpp"

#include <algorithm>
#include <cmath>

#include "simd.hpp"

namespace tagwood {

namespace {

constexpr double kTie = 1e-5;            // similarities closer than this are equal
constexpr double kZero = 1e-5;           // sums shorter than this times the number of rows are zero
constexpr double kUnused = 1e-9;         // features whose sum over the rows is smaller are not used
constexpr double kRounding = 2e-6;       // what float32 may add to a similarity
constexpr int64_t kLocalLimit = 1 << 23; // indices that one thread copies at most (32 MB)

TAGWOOD_HOT float dot(const int32_t *indices, const float *data, int64_t size, const float *dense) {
  float sum = 0;
  for (int64_t i = 0; i < size; ++i)
    sum += dense[indices[i]] * data[i];
  return sum;
}

struct Products {
  double ee, eg, gg;
};

// g <- sum - n_rows * background; returns the products of e and g.
TAGWOOD_HOT Products direct(const double *sum, const double *background, double n_rows, const float *e, double *g,
                            int64_t size) {
  double ee = 0, eg = 0, gg = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double value = e[i];
    const double towards = sum[i] - n_rows * background[i];
    g[i] = towards;
    ee += value * value;
    eg += value * towards;
    gg += towards * towards;
  }
  return {ee, eg, gg};
}

// e <- keep * e + add * g; returns the squared distance e has moved.
TAGWOOD_HOT double move(float *e, const double *g, int64_t size, double keep, double add) {
  double moved = 0;
  for (int64_t i = 0; i < size; ++i) {
    const float next = static_cast<float>(keep * e[i] + add * g[i]);
    const double change = static_cast<double>(next) - e[i];
    moved += change * change;
    e[i] = next;
  }
  return moved;
}

} // namespace

void LabelSolver::solve(int64_t label) {
  collect(label);
  renumber();
  start(groups_.label_starts[label]);
  for (int step = 0; step < settings_.steps; ++step) {
    const bool changed = pick();
    const double moved = step_towards_picks();
    if (!changed && moved <= 1e-7 * std::min(1.0, settings_.step_size))
      break;
  }
}

double LabelSolver::measure(Slot &slot) {
  if (slot.seen != way_) {
    slot.similarity = dot(slot.indices, slot.data, slot.size, e_.data());
    slot.seen = way_;
  }
  return slot.similarity;
}

void LabelSolver::add(const Slot &slot, double weight) {
  for (int64_t i = 0; i < slot.size; ++i)
    sum_[slot.indices[i]] += weight * slot.data[i];
}

void LabelSolver::collect(int64_t label) {
  const CsrView &x = groups_.x;
  slots_.clear();
  group_starts_.assign(1, 0);
  for (int64_t at = groups_.label_indptr[label]; at < groups_.label_indptr[label + 1]; ++at) {
    const int32_t group = groups_.label_groups[at];
    for (int64_t i = groups_.group_indptr[group]; i < groups_.group_indptr[group + 1]; ++i) {
      const int32_t row = groups_.group_rows[i];
      slots_.push_back({row, false, x.row_size(row), x.indices + x.indptr[row], x.data + x.indptr[row], 0.0, -1.0});
    }
    if (static_cast<int64_t>(slots_.size()) > group_starts_.back()) // groups without rows say nothing
      group_starts_.push_back(static_cast<int64_t>(slots_.size()));
  }
  way_ = 0;
  n_picked_ = 0;
}

// Copies the slots' features in numbers of their own, so that a small label works in the nearest cache.
void LabelSolver::renumber() {
  int64_t total = 0;
  for (const Slot &slot : slots_)
    total += slot.size;
  features_.clear();
  int64_t width = groups_.x.n_cols;
  if (total <= std::min(kLocalLimit, 4 * width)) { // with more, all of e fits as well as the part that is used
    indices_.resize(total);
    int32_t *out = indices_.data();
    for (Slot &slot : slots_) {
      for (int64_t i = 0; i < slot.size; ++i) {
        int32_t &id = local_id_[slot.indices[i]];
        if (id < 0) {
          id = static_cast<int32_t>(features_.size());
          features_.push_back(slot.indices[i]);
        }
        out[i] = id;
      }
      slot.indices = out;
      out += slot.size;
    }
    for (const int32_t feature : features_)
      local_id_[feature] = -1;
    width = static_cast<int64_t>(features_.size());
  }
  e_.assign(width, 0.0f);
  sum_.assign(width, 0.0);
  direction_.resize(width);
  background_.resize(width);
}

// e0 is the normalised sum of all rows of all groups, less the background unless that is all there is.
void LabelSolver::start(int32_t place) {
  for (const Slot &slot : slots_)
    add(slot, 1.0);
  for (size_t i = 0; i < sum_.size(); ++i)
    background_[i] = std::abs(sum_[i]) > kUnused ? groups_.background[features_.empty() ? i : features_[i]] : 0.0;
  const int64_t n_rows = static_cast<int64_t>(slots_.size());
  if (!start_from_sum(n_rows) && !start_from_sum(0) && settings_.steps > 0)
    break_symmetry(place);
  std::fill(sum_.begin(), sum_.end(), 0.0);
  leads_.resize(n_groups());
  for (int64_t group = 0; group < n_groups(); ++group) {
    int64_t &lead = leads_[group] = group_starts_[group];
    for (int64_t i = lead; i < group_starts_[group + 1]; ++i)
      if (measure(slots_[i]) > slots_[lead].similarity)
        lead = i;
  }
}

// Takes the background of n_rows rows off the sum; false: nothing is left.
bool LabelSolver::start_from_sum(int64_t n_rows) {
  const int64_t size = static_cast<int64_t>(e_.size());
  const double n = static_cast<double>(n_rows);
  const double norm = std::sqrt(direct(sum_.data(), background_.data(), n, e_.data(), direction_.data(), size).gg);
  if (!(norm > kZero * static_cast<double>(slots_.size())))
    return false;
  move(e_.data(), direction_.data(), size, 0.0, 1.0 / norm);
  return true;
}

// The rows cancel out: e0 is one row of the first group that has rows with features, another one for each label.
void LabelSolver::break_symmetry(int32_t place) {
  for (int64_t group = 0; group < n_groups(); ++group) {
    std::vector<const Slot *> filled;
    for (int64_t i = group_starts_[group]; i < group_starts_[group + 1]; ++i)
      if (slots_[i].size > 0)
        filled.push_back(&slots_[i]);
    if (filled.empty())
      continue;
    const Slot &slot = *filled[place % filled.size()];
    for (int64_t i = 0; i < slot.size; ++i)
      e_[slot.indices[i]] = slot.data[i];
    return;
  }
}

// Measures every slot of the group that may be less than `window` behind its closest one. False: the lead stays the
// only such slot, and nothing was measured (never so with `exact`).
bool LabelSolver::refresh(int64_t group, double window, bool exact) {
  Slot *const begin = slots_.data() + group_starts_[group];
  Slot *const end = slots_.data() + group_starts_[group + 1];
  Slot *lead = slots_.data() + leads_[group];
  const double reach = window + kRounding + way_;
  if (!exact) {
    const double least = lead->similarity - (way_ - lead->seen) - reach;
    bool settled = true;
    for (const Slot *slot = begin; slot != end; ++slot)
      settled &= slot == lead || slot->similarity - slot->seen < least;
    if (settled)
      return false;
  }
  double best = measure(*lead);
  for (Slot *slot = begin; slot != end; ++slot)
    if (slot->similarity - slot->seen >= best - reach && measure(*slot) > best) {
      best = slot->similarity;
      lead = slot;
    }
  leads_[group] = lead - slots_.data();
  return true;
}

// In each group picks the closest rows, ties included, and keeps their sum; says whether any pick changed.
bool LabelSolver::pick() {
  bool changed = false;
  for (int64_t group = 0; group < n_groups(); ++group) {
    const bool measured = refresh(group, kTie, false);
    const int64_t lead = leads_[group];
    const double least = slots_[lead].similarity - kTie;
    for (int64_t i = group_starts_[group]; i < group_starts_[group + 1]; ++i) {
      Slot &slot = slots_[i];
      const bool picked = i == lead || (measured && slot.seen == way_ && slot.similarity >= least);
      if (picked != slot.picked) {
        changed = true;
        slot.picked = picked;
        n_picked_ += picked ? 1 : -1;
        add(slot, picked ? 1.0 : -1.0);
      }
    }
  }
  return changed;
}

// e <- normalise(e + step_size * normalise(sum of the picked rows)); a sum of zero moves nothing.
double LabelSolver::step_towards_picks() {
  const int64_t size = static_cast<int64_t>(e_.size());
  const double n = static_cast<double>(n_picked_);
  const Products p = direct(sum_.data(), background_.data(), n, e_.data(), direction_.data(), size);
  const double g_norm = std::sqrt(p.gg);
  if (!(g_norm > kZero * static_cast<double>(n_picked_)))
    return 0;
  const double eta = settings_.step_size / g_norm;
  const double norm = std::sqrt(std::max(0.0, p.ee + 2 * eta * p.eg + eta * eta * p.gg));
  if (!(norm > kZero))
    return 0;
  const double moved = std::sqrt(move(e_.data(), direction_.data(), size, 1.0 / norm, eta / norm));
  way_ += moved * (1 + 1e-6);
  return moved;
}

std::vector<Assignment> LabelSolver::assignments() {
  std::vector<Assignment> found;
  const double window = std::max(kTie, settings_.margin);
  for (int64_t group = 0; group < n_groups(); ++group) {
    refresh(group, window, true);
    const double best = slots_[leads_[group]].similarity;
    const size_t first = found.size();
    double total = 0;
    for (int64_t i = group_starts_[group]; i < group_starts_[group + 1]; ++i) {
      const Slot &slot = slots_[i];
      const double behind = best - slot.similarity;
      if (slot.seen != way_ || (behind > kTie && behind >= window))
        continue;
      const double share = behind <= kTie ? 1.0 : 1.0 - behind / window;
      found.push_back({slot.row, static_cast<float>(slot.similarity), static_cast<float>(share)});
      total += share;
    }
    for (size_t i = first; i < found.size(); ++i)
      found[i].share = static_cast<float>(found[i].share / total);
  }
  std::sort(found.begin(), found.end(), [](const Assignment &a, const Assignment &b) { return a.row < b.row; });
  size_t kept = 0; // a row that gets the label through several groups has it once
  for (size_t i = 0; i < found.size(); ++i)
    if (kept > 0 && found[kept - 1].row == found[i].row) {
      found[kept - 1].similarity = std::max(found[kept - 1].similarity, found[i].similarity);
      found[kept - 1].share = std::min(1.0f, found[kept - 1].share + found[i].share);
    } else {
      found[kept++] = found[i];
    }
  found.resize(kept);
  found.shrink_to_fit();
  return found;
}

std::vector<EmbeddingEntry> LabelSolver::embedding() const {
  std::vector<EmbeddingEntry> entries;
  for (size_t i = 0; i < e_.size(); ++i)
    if (e_[i] != 0.0f)
      entries.push_back({features_.empty() ? static_cast<int32_t>(i) : features_[i], e_[i]});
  std::sort(entries.begin(), entries.end(),
            [](const EmbeddingEntry &a, const EmbeddingEntry &b) { return a.feature < b.feature; });
  return entries;
}

} // namespace tagwood
