#include "tree/placement.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <span>

namespace tagwood {

namespace {

// The leaves that each row is trained in, and how many of its labels bring it there.
class LeavesOfRows {
public:
  struct Entry {
    int32_t leaf;
    int32_t count;
  };

  // A row has at most as many leaves as its labels have copies.
  LeavesOfRows(std::span<const int32_t> rows_of_labels, int64_t n_rows, int64_t max_copies, int64_t n_nodes)
      : rows_(n_rows) {
    for (const int32_t row : rows_of_labels)
      ++rows_[row].size; // labels of the row, for now
    int64_t start = 0;
    for (Row &row : rows_) {
      row.start = start;
      start += std::min(row.size * std::min(max_copies, n_nodes), n_nodes);
      row.size = 0;
    }
    entries_.resize(start);
  }
  std::span<Entry> of(int32_t row) {
    return {entries_.data() + rows_[row].start, static_cast<size_t>(rows_[row].size)};
  }
  void prefetch(int32_t row) const { __builtin_prefetch(rows_.data() + row); }
  void prefetch_entries(int32_t row) const { __builtin_prefetch(entries_.data() + rows_[row].start); }
  int32_t count(int32_t row, int32_t leaf) {
    for (const Entry &entry : of(row))
      if (entry.leaf == leaf)
        return entry.count;
    return 0;
  }
  bool add(int32_t row, int32_t leaf) { // whether the leaf is new to the row
    for (Entry &entry : of(row))
      if (entry.leaf == leaf) {
        ++entry.count;
        return false;
      }
    Row &r = rows_[row];
    entries_[r.start + r.size++] = {leaf, 1};
    return true;
  }
  bool take(int32_t row, int32_t leaf) { // whether the row has left the leaf
    for (Entry &entry : of(row))
      if (entry.leaf == leaf && --entry.count == 0) {
        entry = of(row).back();
        --rows_[row].size;
        return true;
      }
    return false;
  }

private:
  struct Row {
    int64_t start = 0;
    int64_t size = 0;
  };
  std::vector<Row> rows_;
  std::vector<Entry> entries_;
};

// Cost of training one label on some rows, and of one row more: whole numbers, so that sums are exact.
double cost(double rows) { return std::floor(16 * rows * std::sqrt(std::sqrt(rows))); }
double cost_of_next(double rows) { return std::floor(20 * std::sqrt(std::sqrt(rows))); }

// A leaf for a label: its gain and its cost.
struct Choice {
  int32_t leaf = -1;
  double value = 0; // reach, less the price of the work
  double work = 0;
  double reach_per_work = 0;

  void take_better(const Choice &other) { // of equals the smaller leaf
    if (leaf < 0 || other.value > value || (other.value == value && other.leaf < leaf))
      *this = other;
  }
};

class Placer {
public:
  Placer(const PlacementTask &task, const PlacementOptions &options)
      : t_(task), o_(options), row_leaves_({task.label_rows, static_cast<size_t>(task.label_ptr[task.n_labels])},
                                           task.n_rows, options.max_copies, task.n_nodes),
        n_rows_(task.n_nodes), n_labels_(task.n_nodes), sums_(task.n_nodes), leaves_of_(task.n_labels),
        by_rows_(task.n_labels) {
    for (int32_t label = 0; label < t_.n_labels; ++label) {
      leaves_of_[label] = {t_.first_leaf[label]};
      enter(label, t_.first_leaf[label], [](int32_t) { return true; });
    }
    first_work_ = work();
    const double all_reach = static_cast<double>(t_.width * t_.label_ptr[t_.n_labels]);
    price_ = o_.price * all_reach / std::max(first_work_, 1.0);
    std::iota(by_rows_.begin(), by_rows_.end(), 0);
    std::stable_sort(by_rows_.begin(), by_rows_.end(),
                     [&](int32_t a, int32_t b) { return rows_of(a).size() > rows_of(b).size(); });
  }

  Placement run() {
    for (const int32_t label : by_rows_)
      move(label);
    if (o_.max_copies > 1)
      add_copies();
    Placement result;
    for (int32_t label = 0; label < t_.n_labels; ++label)
      for (const int32_t leaf : leaves_of_[label]) {
        result.labels.push_back(label);
        result.leaves.push_back(leaf);
      }
    return result;
  }

private:
  // Sums over the rows of a label for a leaf that may be chosen; zero between labels.
  struct Sums {
    int64_t reach = 0;
    int64_t present = 0; // rows that are in the leaf already
    int64_t coming = 0;  // rows that would be new to it
    double saved = 0;    // work in the label's other leaves
    bool open = false;   // whether the leaf may be chosen
  };

  std::span<const int32_t> rows_of(int32_t label) const {
    return {t_.label_rows + t_.label_ptr[label], static_cast<size_t>(t_.label_ptr[label + 1] - t_.label_ptr[label])};
  }
  // Visits the rows of a label. They are scattered in memory, hence the prefetch.
  template <class Visit> void each_row(int32_t label, const Visit &visit) {
    const auto rows = rows_of(label);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i + 12 < rows.size()) {
        __builtin_prefetch(t_.matched + rows[i + 12] * t_.n_places);
        row_leaves_.prefetch(rows[i + 12]);
      }
      if (i + 6 < rows.size())
        row_leaves_.prefetch_entries(rows[i + 6]);
      visit(rows[i]);
    }
  }
  std::span<const int32_t> matches_of(int32_t row) const {
    return {t_.matched + row * t_.n_places, static_cast<size_t>(t_.n_places)};
  }
  bool matches(int32_t row, int32_t leaf) const {
    const auto leaves = matches_of(row);
    return std::find(leaves.begin(), leaves.end(), leaf) != leaves.end();
  }
  // A row that is matched to none of a label's leaves: it is trained in all of them.
  bool is_stray(int32_t row, const std::vector<int32_t> &held) const {
    return !o_.brings_all && std::none_of(held.begin(), held.end(), [&](int32_t leaf) { return matches(row, leaf); });
  }
  double work() const {
    return std::inner_product(n_rows_.begin(), n_rows_.end(), n_labels_.begin(), 0.0, std::plus<>(),
                              [](double rows, double labels) { return labels * cost(rows); });
  }
  // Work that one more label and `rows` more rows add to a leaf.
  double added_work(int32_t leaf, int64_t rows) const {
    return (n_labels_[leaf] + 1) * cost(n_rows_[leaf] + static_cast<double>(rows)) -
           n_labels_[leaf] * cost(n_rows_[leaf]);
  }

  // Adds a label to a leaf, with the rows that `brings` selects.
  template <class Brings> void enter(int32_t label, int32_t leaf, const Brings &brings) {
    ++n_labels_[leaf];
    each_row(label, [&](int32_t row) {
      if (brings(row))
        n_rows_[leaf] += row_leaves_.add(row, leaf);
    });
  }
  template <class Takes> void take_rows(int32_t label, int32_t leaf, const Takes &takes) {
    each_row(label, [&](int32_t row) {
      if (takes(row))
        n_rows_[leaf] -= row_leaves_.take(row, leaf);
    });
  }

  // Lists in choices_ the leaves that reach more of a label's rows than `reached(row)`, and sums what they add.
  template <class Reached> void find_choices(int32_t label, const Reached &reached) {
    choices_.clear();
    each_row(label, [&](int32_t row) {
      const int64_t already = reached(row);
      const auto leaves = matches_of(row);
      for (int64_t place = 0; place < t_.width - already; ++place)
        if (const int32_t leaf = leaves[place]; leaf >= 0) {
          add_choice(leaf);
          sums_[leaf].reach += t_.width - place - already;
        }
    });
  }
  void add_choice(int32_t leaf) {
    if (!sums_[leaf].open)
      choices_.push_back(leaf);
    sums_[leaf].open = true;
  }
  void drop_choices_below(int64_t least) {
    std::erase_if(choices_, [&](int32_t leaf) {
      const bool below = sums_[leaf].reach < least;
      if (below)
        sums_[leaf] = {};
      return below;
    });
  }
  void forget_choices() {
    for (const int32_t leaf : choices_)
      sums_[leaf] = {};
  }
  void count_present(int32_t row) {
    for (const auto &entry : row_leaves_.of(row))
      if (sums_[entry.leaf].open)
        ++sums_[entry.leaf].present;
  }

  // Moves a label to the most valuable leaf among those that reach as much as its own.
  void move(int32_t label) {
    find_choices(label, [](int32_t) { return 0; });
    if (choices_.empty())
      return;
    auto all = [](int32_t) { return true; };
    const auto rows = rows_of(label);
    const int32_t own = leaves_of_[label][0];
    --n_labels_[own];
    add_choice(own);
    drop_choices_below(sums_[own].reach);
    each_row(label, [&](int32_t row) {
      n_rows_[own] -= row_leaves_.take(row, own);
      count_present(row);
    });
    Choice best;
    for (const int32_t leaf : choices_) {
      const double work = added_work(leaf, static_cast<int64_t>(rows.size()) - sums_[leaf].present);
      const double stays = leaf == own ? 0.5 * static_cast<double>(t_.width) : 0;
      best.take_better({leaf, static_cast<double>(sums_[leaf].reach) + stays - kMoves * price_ * work, work, 0});
    }
    forget_choices();
    leaves_of_[label][0] = best.leaf;
    enter(label, best.leaf, all);
  }

  // The most valuable further leaf of a label; none if no leaf is worth its price.
  Choice best_copy(int32_t label) {
    const auto &held = leaves_of_[label];
    find_choices(label, [&](int32_t row) {
      const auto leaves = matches_of(row).first(t_.width);
      return leaves.end() - std::find_first_of(leaves.begin(), leaves.end(), held.begin(), held.end());
    });
    drop_choices_below(o_.least_gain * t_.width);
    Choice best;
    if (choices_.empty())
      return best;
    int64_t anywhere = 0; // rows that come to any leaf
    each_row(label, [&](int32_t row) {
      const bool stray = is_stray(row, held);
      if (stray || o_.brings_all) {
        ++anywhere;
        count_present(row);
      }
      if (o_.brings_all)
        return;
      double saved = 0;
      if (stray)
        for (const int32_t other : held)
          saved += row_leaves_.count(row, other) == 1 ? n_labels_[other] * cost_of_next(n_rows_[other]) : 0;
      for (const int32_t leaf : matches_of(row))
        if (leaf >= 0 && sums_[leaf].open) {
          sums_[leaf].coming += !stray && row_leaves_.count(row, leaf) == 0;
          sums_[leaf].saved += saved;
        }
    });
    for (const int32_t leaf : choices_) {
      const Sums &sums = sums_[leaf];
      const double won = static_cast<double>(sums.reach);
      const double work = std::max(added_work(leaf, sums.coming + anywhere - sums.present) - sums.saved, 1.0);
      if (won - price_ * work > 0)
        best.take_better({leaf, won - price_ * work, work, won / work});
    }
    forget_choices();
    return best;
  }

  void add_copy(int32_t label, int32_t leaf) {
    const auto held = leaves_of_[label];
    enter(label, leaf, [&](int32_t row) { return o_.brings_all || matches(row, leaf) || is_stray(row, held); });
    for (const int32_t other : held)
      take_rows(label, other, [&](int32_t row) { return matches(row, leaf) && is_stray(row, held); });
    leaves_of_[label].push_back(leaf);
  }

  // Adds leaves, highest reach per work first, until the budget of work or places is used up.
  void add_copies() {
    std::priority_queue<std::pair<double, int32_t>> queue; // reach per work, negative label
    auto enqueue = [&](int32_t label, const Choice &copy) {
      if (copy.leaf >= 0)
        queue.push({copy.reach_per_work, -label});
    };
    const double growth = std::min(o_.growth, static_cast<double>(o_.max_copies));
    auto places = static_cast<int64_t>(growth * static_cast<double>(t_.n_labels)) - t_.n_labels;
    double left = o_.most_work * first_work_ - work();
    for (const int32_t label : by_rows_)
      enqueue(label, best_copy(label));
    while (!queue.empty() && places > 0) {
      const int32_t label = -queue.top().second;
      queue.pop();
      const Choice copy = best_copy(label); // copies of others may have changed it
      if (!queue.empty() && queue.top().first > copy.reach_per_work) {
        enqueue(label, copy);
        continue;
      }
      if (copy.leaf < 0)
        continue;
      if (copy.work > left)
        break;
      left -= copy.work;
      --places;
      add_copy(label, copy.leaf);
      if (static_cast<int64_t>(leaves_of_[label].size()) < o_.max_copies)
        enqueue(label, best_copy(label));
    }
  }

  // The reach of a rare label is estimated from few rows: a move must gain twice its price.
  static constexpr double kMoves = 2;

  const PlacementTask &t_;
  const PlacementOptions &o_;
  LeavesOfRows row_leaves_;
  std::vector<double> n_rows_, n_labels_; // of each leaf
  std::vector<Sums> sums_;                // of each leaf, for the current label
  std::vector<int32_t> choices_;          // leaves for the current label
  std::vector<std::vector<int32_t>> leaves_of_;
  std::vector<int32_t> by_rows_; // labels with most rows first
  double first_work_ = 0, price_ = 0;
};

} // namespace

Placement place_labels(const PlacementTask &task, const PlacementOptions &options) {
  return Placer(task, options).run();
}

void accept_pairs(const Pairs &pairs, int32_t copies, int64_t n_labels, std::vector<int64_t> capacity,
                  uint8_t *accepted) {
  std::vector<int32_t> left(n_labels, copies);
  for (int64_t i = 0; i < pairs.n; ++i) {
    int32_t &copies_left = left[pairs.labels[i]];
    int64_t &places_left = capacity[pairs.leaves[i]];
    accepted[i] = copies_left > 0 && places_left > 0;
    copies_left -= accepted[i];
    places_left -= accepted[i];
  }
}

} // namespace tagwood
