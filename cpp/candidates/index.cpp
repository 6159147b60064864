#include "candidates/index.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/parallel.hpp"

namespace tagwood {

void fill_index(const CsrView &rows, const int64_t *feature_ptr, int32_t *out_rows, uint8_t *out_codes,
                float *out_scale) {
  std::fill(out_scale, out_scale + rows.n_cols, 0.0f);
  for (int64_t i = 0; i < rows.indptr[rows.n_rows]; ++i)
    out_scale[rows.indices[i]] = std::max(out_scale[rows.indices[i]], rows.data[i]);
  for (int64_t feature = 0; feature < rows.n_cols; ++feature)
    out_scale[feature] *= 1.0f / 255.0f;
  std::vector<int64_t> next(feature_ptr, feature_ptr + rows.n_cols);
  for (int64_t row = 0; row < rows.n_rows; ++row)
    for (int64_t i = rows.indptr[row]; i < rows.indptr[row + 1]; ++i) {
      const int32_t feature = rows.indices[i];
      const float code = out_scale[feature] > 0 ? std::round(rows.data[i] / out_scale[feature]) : 0.0f;
      out_rows[next[feature]] = static_cast<int32_t>(row);
      out_codes[next[feature]++] = static_cast<uint8_t>(std::clamp(code, 1.0f, 255.0f));
    }
}

namespace {

struct Term {
  int64_t begin, end;
  float weight; // of the query, times the scale of the feature
  float bound;  // the most it can add to a row
  int64_t size() const { return end - begin; }
};

struct Hit {
  float score;
  int32_t row;
  bool operator<(const Hit &other) const { // better first
    return score != other.score ? score > other.score : row < other.row;
  }
};

// Memory of one thread, reused from query to query; sums are 0 between them.
struct Memory {
  std::vector<float> sums, rest;
  std::vector<int32_t> seen, touched, counts;
  std::vector<Term> terms;
  std::vector<Hit> hits;
  std::vector<uint64_t> bitmap;
};

// Term at a time, the terms that can add most first. As soon as the terms that are left cannot lift an unseen row
// among the best k, only rows seen so far are followed, and of these only those that can still get there.
class Searcher {
public:
  Searcher(const IndexView &index, const uint8_t *dead, int64_t k, Memory &memory)
      : index_(index), dead_(dead), k_(k), sums_(memory.sums), rest_(memory.rest), seen_(memory.seen),
        touched_(memory.touched), counts_(memory.counts), terms_(memory.terms), hits_(memory.hits),
        bitmap_(memory.bitmap) {
    if (static_cast<int64_t>(sums_.size()) < index.n_rows)
      sums_.resize(index.n_rows, 0.0f);
    counts_.resize(kBuckets);
  }

  int32_t search(std::span<const int32_t> features, std::span<const float> values, int32_t *rows, float *scores) {
    gather_terms(features, values);
    size_t term = 0;
    int64_t left = 0; // postings of the terms to come
    for (const Term &t : terms_)
      left += t.size();
    // A look at the threshold passes over all rows seen: it is worth it after as many postings, and before as many.
    for (int64_t since = 0; term < terms_.size(); ++term) {
      const auto n_seen = static_cast<int64_t>(seen_.size());
      if (n_seen && since >= n_seen && left > n_seen) {
        if (unseen_are_out(rest_[term]))
          break;
        since = 0;
      }
      add_all(terms_[term]);
      since += terms_[term].size();
      left -= terms_[term].size();
    }
    if (term < terms_.size())
      follow_candidates(term);
    hits_.clear();
    const float least = threshold();
    for (const int32_t row : seen_)
      if (sums_[row] >= least && (!dead_ || !dead_[row]))
        hits_.push_back({sums_[row], row});
    const size_t kept = std::min<size_t>(k_, hits_.size());
    std::partial_sort(hits_.begin(), hits_.begin() + kept, hits_.end());
    for (size_t i = 0; i < kept; ++i) {
      rows[i] = hits_[i].row;
      scores[i] = hits_[i].score;
    }
    for (const int32_t row : touched_.empty() ? seen_ : touched_)
      sums_[row] = 0.0f;
    return static_cast<int32_t>(kept);
  }

private:
  static constexpr size_t kWordsPerRow = 8; // words of a bitmap that are read in the time of sorting one row
  static constexpr int64_t kDense = 12;     // entries of a feature that are added in the time of looking one up
  static constexpr float kSlack = 1e-4f;    // covers rounding of the sums: a tie is never pruned
  // Buckets of sums from 2^-12 to 2^4, 64 for each power of two: positive floats are ordered as their bits are.
  static constexpr int kShift = 17;
  static constexpr int64_t kFirstBits = (127 - 12) << 6, kBuckets = 16 << 6;

  void gather_terms(std::span<const int32_t> features, std::span<const float> values) {
    terms_.clear();
    seen_.clear();
    touched_.clear();
    for (size_t i = 0; i < features.size(); ++i) {
      const int32_t feature = features[i];
      const float weight = values[i] * index_.scale[feature];
      const Term term{index_.feature_ptr[feature], index_.feature_ptr[feature + 1], weight, weight * 255.0f};
      if (weight > 0 && term.end > term.begin)
        terms_.push_back(term);
    }
    std::sort(terms_.begin(), terms_.end(),
              [](const Term &a, const Term &b) { return a.bound != b.bound ? a.bound > b.bound : a.begin < b.begin; });
    rest_.assign(terms_.size() + 1, kSlack);
    for (size_t i = terms_.size(); i-- > 0;)
      rest_[i] = rest_[i + 1] + terms_[i].bound;
  }

  // Every row is written to the list, and stays there if it is new: a branch would be mispredicted too often.
  void add_all(const Term &term) {
    size_t n = seen_.size();
    seen_.resize(std::min<size_t>(index_.n_rows, n + term.size()) + 1);
    for (int64_t i = term.begin; i < term.end; ++i) {
      const int32_t row = index_.rows[i];
      const float sum = sums_[row];
      seen_[n] = row;
      n += sum == 0.0f;
      sums_[row] = sum + term.weight * index_.codes[i];
    }
    seen_.resize(n);
  }

  // A bound from below on the k-th best sum so far, at most 1/64 too low: sums are counted by the first bits of their
  // numbers, which takes a quarter of the time of finding the k-th best. 0 where fewer rows were seen.
  float threshold() {
    std::fill(counts_.begin(), counts_.end(), 0);
    for (const int32_t row : seen_)
      if (!dead_ || !dead_[row])
        ++counts_[bucket(sums_[row])];
    int64_t above = 0;
    for (size_t at = counts_.size(); at-- > 1;)
      if ((above += counts_[at]) >= k_)
        return std::bit_cast<float>(static_cast<uint32_t>((static_cast<int64_t>(at) + kFirstBits) << kShift));
    return 0.0f;
  }

  static size_t bucket(float sum) { // the first one holds everything below 2^-12
    const int64_t bits = static_cast<int64_t>(std::bit_cast<uint32_t>(sum) >> kShift) - kFirstBits;
    return static_cast<size_t>(std::clamp<int64_t>(bits, 0, kBuckets - 1));
  }

  bool unseen_are_out(float rest) {
    threshold_ = threshold();
    return threshold_ > rest;
  }

  // Without branches, which would be mispredicted too often.
  void keep_candidates(float rest) {
    const float least = threshold_ - rest;
    size_t n = 0;
    for (const int32_t row : seen_) {
      seen_[n] = row;
      n += sums_[row] >= least;
    }
    seen_.resize(n);
  }

  // Many candidates are sorted by a bitmap of all rows.
  void sort_candidates() {
    const auto n_words = static_cast<size_t>(index_.n_rows + 63) / 64;
    if (seen_.size() * kWordsPerRow < n_words) {
      std::sort(seen_.begin(), seen_.end());
      return;
    }
    bitmap_.assign(n_words, 0);
    for (const int32_t row : seen_)
      bitmap_[static_cast<size_t>(row) / 64] |= uint64_t{1} << (row % 64);
    size_t n = 0;
    for (size_t word = 0; word < n_words; ++word)
      for (uint64_t bits = bitmap_[word]; bits; bits &= bits - 1)
        seen_[n++] = static_cast<int32_t>(word * 64) + std::countr_zero(bits);
  }

  void follow_candidates(size_t term) {
    touched_ = seen_; // to be zeroed at the end
    keep_candidates(rest_[term]);
    sort_candidates();
    for (; term < terms_.size(); ++term) {
      add_to_candidates(terms_[term]);
      if (static_cast<int64_t>(seen_.size()) > 2 * k_) {
        threshold_ = threshold();
        keep_candidates(rest_[term + 1]);
      }
    }
  }

  void add_to_candidates(const Term &term) {
    if (term.size() < kDense * static_cast<int64_t>(seen_.size())) { // sums of rows that were given up grow unread
      for (int64_t i = term.begin; i < term.end; ++i) {
        float &sum = sums_[index_.rows[i]];
        sum = sum != 0.0f ? sum + term.weight * index_.codes[i] : 0.0f;
      }
      return;
    }
    const int32_t *at = index_.rows + term.begin, *const end = index_.rows + term.end;
    for (const int32_t row : seen_) {
      int64_t step = 1; // gallop
      const int32_t *low = at;
      while (low + step < end && low[step] < row) {
        low += step;
        step *= 2;
      }
      at = std::lower_bound(low, std::min(low + step + 1, end), row);
      if (at == end)
        return;
      if (*at == row)
        sums_[row] += term.weight * index_.codes[at - index_.rows];
    }
  }

  const IndexView &index_;
  const uint8_t *dead_;
  const int64_t k_;
  float threshold_ = 0.0f;
  std::vector<float> &sums_, &rest_;
  std::vector<int32_t> &seen_, &touched_, &counts_;
  std::vector<Term> &terms_;
  std::vector<Hit> &hits_;
  std::vector<uint64_t> &bitmap_;
};

// How many of the first values hold more than the share 1 - neglected of all squares.
size_t count_main(std::span<const float> values, float neglected) {
  double left = 0;
  for (const float value : values)
    left += static_cast<double>(value) * value;
  left *= neglected;
  size_t n = values.size();
  while (n > 0 && (left -= static_cast<double>(values[n - 1]) * values[n - 1]) >= 0)
    --n;
  return n;
}

} // namespace

void nearest_rows(const IndexView &index, const uint8_t *dead, const CsrView &queries, int64_t k, float neglected,
                  int threads, int32_t *out_rows, float *out_scores, int32_t *out_found) {
  auto search = [&](int64_t begin, int64_t end, Memory &memory) {
    Searcher searcher(index, dead, k, memory);
    for (int64_t row = begin; row < end; ++row) {
      std::fill_n(out_rows + row * k, k, 0);
      std::fill_n(out_scores + row * k, k, 0.0f);
      const size_t n = neglected > 0 ? count_main(queries.row_data(row), neglected) : queries.row_data(row).size();
      out_found[row] = searcher.search(queries.row_indices(row).first(n), queries.row_data(row).first(n),
                                       out_rows + row * k, out_scores + row * k);
    }
  };
  if (queries.n_rows == 1) { // clearing the sums of a large index would take longer than the search
    static thread_local Memory own;
    try {
      search(0, 1, own);
    } catch (...) {
      own = {};
      throw;
    }
    return;
  }
  const int64_t chunk = std::max<int64_t>(1, std::min<int64_t>(64, queries.n_rows / std::max(1, threads)));
  std::vector<Memory> memories(std::max(1, threads));
  parallel_chunks(queries.n_rows, threads, chunk,
                  [&](int64_t begin, int64_t end, int thread) { search(begin, end, memories[thread]); });
}

void vote_labels(std::span<const int32_t> found, const int32_t *rows, const float *weights, int64_t width,
                 const int64_t *label_ptr, const int32_t *labels, const uint8_t *blocked, int64_t k, int threads,
                 int32_t *out_labels, float *out_scores, int32_t *out_found) {
  parallel_chunks(static_cast<int64_t>(found.size()), threads, 64, [&](int64_t begin, int64_t end, int) {
    std::vector<std::pair<int32_t, float>> votes; // label, weight; in the order of the neighbours
    std::vector<Hit> hits;
    for (int64_t query = begin; query < end; ++query) {
      votes.clear();
      hits.clear();
      for (int64_t place = query * width; place < query * width + found[query]; ++place)
        for (int64_t i = label_ptr[rows[place]]; i < label_ptr[rows[place] + 1]; ++i)
          if (!blocked || !blocked[labels[i]])
            votes.emplace_back(labels[i], weights[place]);
      std::stable_sort(votes.begin(), votes.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
      for (size_t i = 0; i < votes.size(); ++i)
        if (i && votes[i].first == votes[i - 1].first)
          hits.back().score += votes[i].second;
        else
          hits.push_back({votes[i].second, votes[i].first});
      const size_t kept = std::min<size_t>(k, hits.size());
      std::partial_sort(hits.begin(), hits.begin() + kept, hits.end());
      std::fill_n(out_labels + query * k, k, 0);
      std::fill_n(out_scores + query * k, k, 0.0f);
      for (size_t i = 0; i < kept; ++i) {
        out_labels[query * k + i] = hits[i].row;
        out_scores[query * k + i] = hits[i].score;
      }
      out_found[query] = static_cast<int32_t>(kept);
    }
  });
}

} // namespace tagwood
