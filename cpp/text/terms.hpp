// Texts as rows of features: n-grams as 64-bit keys, the vocabulary that finds a feature by its key, TF-IDF rows, word
// sequences and bags of words.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "text/tokens.hpp"

namespace tagwood {

// Lengths of the n-grams wanted, both ends included; 0 to 0 means none of that kind.
// hash_bits > 0: a key is cut to its top bits, so that the keys themselves are feature ids.
struct Ngrams {
  int word_low, word_high;
  int char_low, char_high;
  int hash_bits;

  uint64_t cut(uint64_t key) const { return hash_bits ? key >> (64 - hash_bits) : key; }
};

// Position of an n-gram: tokens [first, last), or bytes [first, last) of the tokenizer's text.
struct Origin {
  bool chars;
  int64_t first;
  int64_t last;
};

// Calls visit(key, origin) for the word n-grams, in order of their first token.
template <class Visit> void each_word_ngram(const Tokenizer &words, const Ngrams &ngrams, Visit &&visit) {
  const auto &tokens = words.tokens();
  const int64_t n = static_cast<int64_t>(tokens.size());
  for (int64_t first = 0; first < n && ngrams.word_high > 0; ++first) {
    uint64_t key = tokens[first].hash;
    const int64_t stop = std::min<int64_t>(n, first + ngrams.word_high);
    for (int64_t last = first + 1;; ++last) {
      if (last - first >= ngrams.word_low)
        visit(ngrams.cut(key), Origin{false, first, last});
      if (last >= stop)
        break;
      key = join_keys(key, tokens[last].hash);
    }
  }
}

// Calls visit(key, origin) for the character n-grams inside words, a space on each side included. A word shorter than
// n gives itself once and no longer n-grams. Unspaced characters that touch count as one word. `starts` is scratch.
template <class Visit>
void each_char_ngram(const Tokenizer &words, const Ngrams &ngrams, std::vector<int64_t> &starts, Visit &&visit) {
  const uint8_t *text = words.text();
  const int64_t size = words.text_size();
  for (int64_t at = 0; at + 1 < size && ngrams.char_high > 0;) {
    starts.assign(1, at);
    for (++at; text[at] != ' '; ++at)
      if ((text[at] & 0xC0) != 0x80)
        starts.push_back(at);
    starts.push_back(at); // `at` is the space after the word, and the one before the next
    starts.push_back(at + 1);
    const int64_t n_chars = static_cast<int64_t>(starts.size()) - 1;
    for (int64_t n = ngrams.char_low; n <= ngrams.char_high; ++n) {
      const int64_t length = std::min(n, n_chars);
      for (int64_t first = 0; first + length <= n_chars; ++first) {
        const Origin origin{true, starts[first], starts[first + length]};
        visit(ngrams.cut(hash_bytes(text + origin.first, origin.last - origin.first, kCharSeed)), origin);
      }
      if (n >= n_chars)
        break;
    }
  }
}

// Appends the spelling of an n-gram: tokens joined by spaces, none between two unspaced ones.
inline void spell(const Tokenizer &words, const Origin &origin, std::vector<uint8_t> &out) {
  const uint8_t *text = words.text();
  if (origin.chars) {
    out.insert(out.end(), text + origin.first, text + origin.last);
    return;
  }
  const auto &tokens = words.tokens();
  for (int64_t t = origin.first; t < origin.last; ++t) {
    if (t > origin.first && !(tokens[t].unspaced && tokens[t - 1].unspaced))
      out.push_back(' ');
    out.insert(out.end(), text + tokens[t].begin, text + tokens[t].end);
  }
}

// A hash table from keys to features, with open addressing and at least as many free slots as features. A slot holds
// feature id + 1 in its low `id_bits` bits and the upper bits of the key above them; 0 is free. The search starts at
// the key's low bits, so slot number and slot content together check the whole key. The table is one plain array that
// can be memory-mapped.
struct VocabularyView {
  const uint64_t *slots;
  int64_t n_slots; // a power of two
  int64_t n_features;
  uint64_t id_mask;

  VocabularyView(const uint64_t *table, int64_t n_slots, int64_t n_features)
      : slots(table), n_slots(n_slots), n_features(n_features),
        id_mask((uint64_t{1} << std::bit_width(static_cast<uint64_t>(n_features))) - 1) {}

  void prefetch(uint64_t key) const { __builtin_prefetch(slots + (key & (n_slots - 1))); }

  // The feature of a key, or -1. A damaged table gives wrong features, but never an endless search or a read
  // outside the table.
  int64_t find(uint64_t key) const {
    const uint64_t slot = slots[key & (n_slots - 1)];
    const bool other = ((slot ^ key) & ~id_mask) != 0;
    if (slot != 0 && other) [[unlikely]]
      return find_on(key);
    return other ? -1 : id_of(slot);
  }

private:
  int64_t id_of(uint64_t slot) const {
    const int64_t id = static_cast<int64_t>(slot & id_mask) - 1;
    return id < n_features ? id : -1;
  }
  int64_t find_on(uint64_t key) const {
    for (int64_t tries = 1; tries < n_slots; ++tries) {
      const uint64_t slot = slots[(key + tries) & (n_slots - 1)];
      if (slot == 0)
        return -1;
      if (((slot ^ key) & ~id_mask) == 0)
        return id_of(slot);
    }
    return -1;
  }
};

// The table of n_features different keys, feature i for keys[i].
std::vector<uint64_t> build_vocabulary(const uint64_t *keys, int64_t n_features);

struct Weighting {
  const float *idf; // (n_features,); features of idf 0 are left out
  int64_t n_features;
  bool sublinear; // 1 + ln(count) instead of the count
};

struct TextRows {
  std::vector<int64_t> indptr;
  std::vector<int32_t> indices;
  std::vector<float> data;
};

// Rows of norm 1 with rising columns. With ngrams.hash_bits the keys are the features and the vocabulary is not used.
TextRows tfidf_rows(const TextView &texts, const CharTables &tables, const Ngrams &ngrams,
                    const VocabularyView &vocabulary, const Weighting &weighting, int threads);

// n-grams with the number of texts that contain them; keys rise.
struct TermCounts {
  std::vector<uint64_t> keys;
  std::vector<int64_t> counts;
};

TermCounts count_terms(const TextView &texts, const CharTables &tables, const Ngrams &ngrams, int threads);

// The sum of the counts of two sets of texts.
TermCounts merge_counts(const uint64_t *left_keys, const int64_t *left_counts, int64_t n_left,
                        const uint64_t *right_keys, const int64_t *right_counts, int64_t n_right);

// Spellings: term i is the feature ids[i], written in bytes[offsets[i]] up to bytes[offsets[i + 1]].
struct Spellings {
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets;
  std::vector<uint8_t> bytes;
};

// Spellings of the features that occur in the texts and are not yet known (n_features flags), by rising id. If two
// n-grams share a key, the first in the texts gives the spelling. Character n-grams start with `char_mark` if not 0.
Spellings spell_terms(const TextView &texts, const CharTables &tables, const Ngrams &ngrams,
                      const VocabularyView &vocabulary, const uint8_t *known, uint8_t char_mark, int threads);

// Texts as sequences of word numbers, for networks that read words in order.
struct WordRows {
  std::vector<int64_t> indptr;
  std::vector<int32_t> ids;
};

// The first `longest` words of each text in order, by their number in the vocabulary; -1 for unknown words.
WordRows word_rows(const TextView &texts, const CharTables &tables, const VocabularyView &words, int64_t longest,
                   int threads);

// Features of a bag of words and hashed word n-grams, the input of averaged embeddings: feature 0 is in every text,
// word i of the vocabulary is feature i + 1, and an n-gram of 2 to `longest` words has the feature of its bucket (-1:
// none). Entries outside the features are ignored.
struct BagFeatures {
  VocabularyView words;
  const int32_t *buckets;
  int bucket_bits; // 0: no n-grams
  int longest;
  int64_t n_features;
  bool counts_unknown; // n-grams without a feature count towards the length of the text
};

// One row per text, columns rising; a feature's value is its share of all features of the text, so that a row sums to
// 1, or to less where unknown n-grams count.
TextRows bag_rows(const TextView &texts, const CharTables &tables, const BagFeatures &features, int threads);

} // namespace tagwood
