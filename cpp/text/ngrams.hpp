// The n-grams of one tokenised text, as 64-bit keys.
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

// Where an n-gram stands: tokens [first, last), or bytes [first, last) of the tokenizer's text.
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

} // namespace tagwood
