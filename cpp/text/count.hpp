// What fitting needs to know of the texts: in how many each n-gram stands, and how the chosen ones are spelled.
#pragma once

#include <vector>

#include "text/tfidf.hpp"

namespace tagwood {

// n-grams with the number of texts they stand in; keys rise.
struct TermCounts {
  std::vector<uint64_t> keys;
  std::vector<int64_t> counts;
};

TermCounts count_terms(const TextView &texts, const CharTables &tables, const Ngrams &ngrams, int threads);

// The counts of two sets of texts together.
TermCounts merge_counts(const uint64_t *left_keys, const int64_t *left_counts, int64_t n_left,
                        const uint64_t *right_keys, const int64_t *right_counts, int64_t n_right);

// Spellings: term i is the feature ids[i], written in bytes[offsets[i]] up to bytes[offsets[i + 1]].
struct Spellings {
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets;
  std::vector<uint8_t> bytes;
};

// Spellings of the features that stand in the texts and are not yet known (n_features flags), by rising id. Two
// n-grams of one key: the first in the texts gives the spelling. Character n-grams start with `char_mark` if not 0.
Spellings spell_terms(const TextView &texts, const CharTables &tables, const Ngrams &ngrams,
                      const VocabularyView &vocabulary, const uint8_t *known, uint8_t char_mark, int threads);

} // namespace tagwood
