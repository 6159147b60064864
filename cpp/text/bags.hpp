// Texts as bags of words and hashed word n-grams: the rows that averaged embeddings read.
#pragma once

#include <vector>

#include "text/tfidf.hpp"

namespace tagwood {

// Feature 0 stands in every text, word i of the vocabulary is feature i + 1, and an n-gram of 2 to `longest` words is
// what its bucket says (-1: nothing). Entries outside the features count as nothing.
struct BagFeatures {
  VocabularyView words;
  const int32_t *buckets;
  int bucket_bits; // 0: no n-grams
  int longest;
  int64_t n_features;
  bool counts_unknown; // n-grams that are no feature count as part of the text
};

struct BagRows {
  std::vector<int64_t> indptr;
  std::vector<int32_t> indices;
  std::vector<float> data;
};

// One row per text, columns rising; a feature weighs its share of all the text's features, so that a row sums to 1, or
// to less where unknown n-grams count.
BagRows bag_rows(const TextView &texts, const CharTables &tables, const BagFeatures &features, int threads);

} // namespace tagwood
