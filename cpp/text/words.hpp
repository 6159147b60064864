// Texts as sequences of word numbers: what networks that read words in order take.
#pragma once

#include <vector>

#include "text/tfidf.hpp"

namespace tagwood {

struct WordRows {
  std::vector<int64_t> indptr;
  std::vector<int32_t> ids;
};

// The first `longest` words of each text in order, by their number in the vocabulary; -1 for words it does not have.
WordRows word_rows(const TextView &texts, const CharTables &tables, const VocabularyView &words, int64_t longest,
                   int threads);

} // namespace tagwood
