// What texts say about labels of which only names are known: names found, words shared, similar labels suggested.
#pragma once

#include <cstdint>
#include <vector>

#include "candidates/gather.hpp"
#include "candidates/names.hpp"

namespace tagwood {

// A sparse matrix by rows, whose columns are new labels.
struct PostingsView {
  const int64_t *ptr;
  const int32_t *columns;
  const float *values;
};

struct EvidenceView {
  int64_t n_labels;
  const int32_t *name_labels;     // per name: its label
  const int32_t *shared;          // per name: labels with a name of the same words
  PostingsView bags;              // per word: labels with it
  PostingsView related;           // per trained label: labels with similar names
  double min_cosine, min_related; // from which a label without a name in the text is a candidate
};

constexpr int64_t kEvidence = 15; // features of a candidate, see FEATURES in name_evidence.py

struct EvidenceFound {
  std::vector<int64_t> indptr; // per text
  std::vector<int32_t> labels; // rising inside a text
  std::vector<double> features;
  std::vector<uint8_t> certain; // the text is just a name of the label
};

EvidenceFound find_evidence(const NamesView &names, const EvidenceView &evidence, const WordsView &texts,
                            const RankingView &ranking);

struct JoinedRanking {
  std::vector<int64_t> indptr;
  std::vector<int32_t> labels;
  std::vector<float> scores;
};

// The best k labels of each row of a ranking and of others, whose labels may be in any order. A label that is in both
// keeps the score of the ranking.
JoinedRanking join_rankings(const RankingView &ranking, const RankingView &others, int64_t n_rows, int64_t k);

} // namespace tagwood
