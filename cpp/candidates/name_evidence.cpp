#include "candidates/name_evidence.hpp"

#include <algorithm>
#include <cmath>

namespace tagwood {

namespace {

// Sums over the new labels for one text; only those that were touched are looked at and cleared.
class LabelSums {
public:
  explicit LabelSums(int64_t n_labels)
      : cosine_(n_labels, 0.0), related_(n_labels, 0.0), match_(n_labels, -1), seen_(n_labels, 0) {}

  void add(std::vector<double> &sums, const PostingsView &postings, int64_t row, double weight) {
    for (int64_t i = postings.ptr[row]; i < postings.ptr[row + 1]; ++i)
      sums[touch(postings.columns[i])] += weight * postings.values[i];
  }

  int32_t touch(int32_t label) {
    if (!seen_[label]) {
      seen_[label] = 1;
      touched_.push_back(label);
    }
    return label;
  }

  void clear() {
    for (const int32_t label : touched_) {
      cosine_[label] = related_[label] = 0.0;
      match_[label] = -1;
      seen_[label] = 0;
    }
    touched_.clear();
  }

  std::vector<double> cosine_, related_;
  std::vector<int64_t> match_; // the match with the most weight in the text
  std::vector<int32_t> touched_;

private:
  std::vector<uint8_t> seen_;
};

float total_weight(const NamesView &names, int32_t name) {
  float total = 0;
  for (int64_t i = names.names.indptr[name]; i < names.names.indptr[name + 1]; ++i)
    total += names.weight[names.names.words[i]];
  return total;
}

// Cosines of a text and the labels, each a set of words.
void add_cosines(const NamesView &names, const PostingsView &bags, const int32_t *begin, const int32_t *end,
                 std::vector<int32_t> &words, LabelSums &sums) {
  words.assign(begin, end);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  double squares = 0;
  for (const int32_t word : words)
    squares += word < 0 ? 0.0 : static_cast<double>(names.weight[word]) * names.weight[word];
  const double length = std::max(std::sqrt(squares), 1e-9);
  for (const int32_t word : words)
    if (word >= 0)
      sums.add(sums.cosine_, bags, word, names.weight[word] / length);
}

void keep_best_names(const NamesView &names, const EvidenceView &evidence, const NameMatches &found, int64_t begin,
                     int64_t end, LabelSums &sums) {
  for (int64_t i = begin; i < end; ++i) {
    int64_t &best = sums.match_[sums.touch(evidence.name_labels[found.names[i]])];
    if (best < 0 || found.coverage[i] * total_weight(names, found.names[i]) >
                        found.coverage[best] * total_weight(names, found.names[best]))
      best = i;
  }
}

// Features 1 to 10, those of a name in the text; whether the text is just the name.
bool describe_name(const NamesView &names, const EvidenceView &evidence, const NameMatches &found, int64_t at,
                   int64_t text_length, double *out) {
  const int32_t name = found.names[at];
  const int64_t size = names.names.indptr[name + 1] - names.names.indptr[name];
  const double coverage = found.coverage[at];
  const bool whole = found.coverage[at] > 0.9999f;
  out[1] = 0;
  out[2] = coverage;
  out[3] = whole;
  out[4] = found.phrases[at] > 0;
  out[5] = std::log1p(static_cast<double>(std::max(found.count[at], found.phrases[at])));
  out[6] = found.first[at];
  out[7] = std::log1p(static_cast<double>(size));
  out[8] = total_weight(names, name);
  out[9] = std::log(static_cast<double>(evidence.shared[name]));
  out[10] = coverage * coverage;
  return whole && found.phrases[at] > 0 && size == text_length;
}

} // namespace

EvidenceFound find_evidence(const NamesView &names, const EvidenceView &evidence, const WordsView &texts,
                            const RankingView &ranking) {
  const NameMatches found = match_names(names, texts, 1);
  EvidenceFound out;
  out.indptr.push_back(0);
  LabelSums sums(evidence.n_labels);
  std::vector<int32_t> words;
  for (int64_t row = 0; row < texts.n_rows; ++row) {
    const int64_t begin = texts.indptr[row], end = texts.indptr[row + 1];
    keep_best_names(names, evidence, found, found.indptr[row], found.indptr[row + 1], sums);
    add_cosines(names, evidence.bags, texts.words + begin, texts.words + end, words, sums);
    const int64_t first = ranking.indptr[row], last = ranking.indptr[row + 1];
    for (int64_t i = first; i < last; ++i)
      sums.add(sums.related_, evidence.related, ranking.labels[i], std::sqrt(ranking.scores[i]));
    std::sort(sums.touched_.begin(), sums.touched_.end());
    for (const int32_t label : sums.touched_) {
      const double cosine = sums.cosine_[label], related = sums.related_[label];
      if (sums.match_[label] < 0 && cosine < evidence.min_cosine && related < evidence.min_related)
        continue;
      double columns[kEvidence] = {1, 1};
      const bool named = sums.match_[label] >= 0;
      const bool certain = named && describe_name(names, evidence, found, sums.match_[label], end - begin, columns);
      columns[11] = cosine;
      columns[12] = std::sqrt(related);
      columns[13] = named ? 0.0 : columns[12];
      columns[14] = first < last ? ranking.scores[first] : 0.0f;
      out.labels.push_back(label);
      out.features.insert(out.features.end(), columns, columns + kEvidence);
      out.certain.push_back(certain);
    }
    sums.clear();
    out.indptr.push_back(static_cast<int64_t>(out.labels.size()));
  }
  return out;
}

JoinedRanking join_rankings(const RankingView &ranking, const RankingView &others, int64_t n_rows, int64_t k) {
  JoinedRanking out;
  out.indptr.push_back(0);
  std::vector<std::pair<float, int32_t>> row_labels; // negative score, label
  for (int64_t row = 0; row < n_rows; ++row) {
    const int64_t first = ranking.indptr[row], last = ranking.indptr[row + 1];
    const int64_t kept = std::min(last, first + k);
    const float least = kept - first == k ? ranking.scores[kept - 1] : 0.0f;
    row_labels.clear();
    for (int64_t i = first; i < kept; ++i)
      row_labels.emplace_back(-ranking.scores[i], ranking.labels[i]);
    for (int64_t i = others.indptr[row]; i < others.indptr[row + 1]; ++i)
      if (others.scores[i] > least &&
          std::find(ranking.labels + first, ranking.labels + last, others.labels[i]) == ranking.labels + last)
        row_labels.emplace_back(-others.scores[i], others.labels[i]);
    if (static_cast<int64_t>(row_labels.size()) > kept - first)
      std::sort(row_labels.begin(), row_labels.end());
    row_labels.resize(std::min<int64_t>(row_labels.size(), k));
    for (const auto &[score, label] : row_labels) {
      out.labels.push_back(label);
      out.scores.push_back(-score);
    }
    out.indptr.push_back(static_cast<int64_t>(out.labels.size()));
  }
  return out;
}

} // namespace tagwood
