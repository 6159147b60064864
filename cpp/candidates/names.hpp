// Label names in texts: which names have most of their words in a text, and how they stand there.
#pragma once

#include <cstdint>
#include <vector>

namespace tagwood {

// Sequences of word numbers; a negative number is a word that no name has.
struct WordsView {
  const int64_t *indptr;
  const int32_t *words;
  int64_t n_rows;
};

struct NamesView {
  WordsView names;     // words of each name, in order
  const float *weight; // per word: how telling it is
  const int64_t *ptr;  // per word: names that are looked up by it
  const int32_t *by_word;
  float min_coverage; // share of a name's weight that must be in the text
};

// A name found in a text.
struct NameMatches {
  std::vector<int64_t> indptr;  // per text
  std::vector<int32_t> names;   // rising inside a text
  std::vector<float> coverage;  // share of the name's weight that is in the text
  std::vector<int32_t> count;   // how often its rarest word stands there
  std::vector<int32_t> phrases; // how often the whole name stands there, word after word
  std::vector<float> first;     // place of its first word, as a share of the text
};

// Assigns each name to the words that a match must contain one of: the most telling ones, until what is left weighs
// less than min_coverage. Returns ptr and by_word of a NamesView.
void prefix_words(const WordsView &names, const float *weight, int64_t n_words, float min_coverage,
                  std::vector<int64_t> &ptr, std::vector<int32_t> &by_word);

NameMatches match_names(const NamesView &index, const WordsView &texts, int threads);

} // namespace tagwood
