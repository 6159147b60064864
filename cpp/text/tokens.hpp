// UTF-8 texts cut into words. Unicode knowledge comes in as tables that Python builds from its own database.
#pragma once

#include <cstdint>
#include <vector>

#include "text/hash.hpp"

namespace tagwood {

// Texts one after the other: row i is bytes[offsets[i]] up to bytes[offsets[i + 1]].
struct TextView {
  const uint8_t *bytes;
  const int64_t *offsets;
  int64_t n_rows;
};

enum CharClass : uint8_t { kSeparator = 0, kWord = 1, kUnspaced = 2, kMark = 3, kIgnored = 4 };

// classes: the CharClass of every code point below n_classes; above is separator.
// folds: what each code point below n_folds becomes: one code point in the low half, a second or 0 in the high half.
// kComplex marks those whose form depends on their neighbours; texts with one are normalised by Python beforehand.
struct CharTables {
  const uint8_t *classes;
  int64_t n_classes;
  const uint32_t *folds;
  int64_t n_folds;

  CharClass class_of(uint32_t code) const {
    return code < n_classes ? static_cast<CharClass>(classes[code]) : kSeparator;
  }
};
constexpr uint32_t kComplex = 0xFFFFFFFFu;

struct Token {
  int64_t begin;
  int64_t end;
  uint64_t hash;
  bool unspaced; // one character of a script written without spaces
};

// A text as bit masks, one bit a byte, and with its ASCII letters in lower case: whole words are found by bit scans.
struct CharMasks {
  std::vector<uint64_t> word;  // ASCII letters, digits, underscore
  std::vector<uint64_t> other; // bytes outside ASCII
  std::vector<uint8_t> lower;

  void fill(const uint8_t *bytes, int64_t size, bool fold);
  bool is_other(int64_t at) const { return other[at >> 6] >> (at & 63) & 1; }
  int64_t next_char(int64_t at, int64_t size) const; // the next byte of either mask, or size
  int64_t word_end(int64_t at, int64_t size) const;  // the next byte that is no ASCII word character, or size
};

// The words of one text. In `text` each stands after a space, except an unspaced one that touches the one before;
// one more space ends it. Words of one character are dropped unless unspaced. Reused from text to text.
class Tokenizer {
public:
  explicit Tokenizer(const CharTables &tables);
  void run(const uint8_t *begin, const uint8_t *end);

  const std::vector<Token> &tokens() const { return tokens_; }
  const uint8_t *text() const { return text_.data(); }
  int64_t text_size() const { return text_size_; }

private:
  int64_t add_ascii(int64_t at, int64_t size);
  int64_t add_other(const uint8_t *bytes, int64_t at, int64_t size);
  void add(uint32_t code);
  void open(bool unspaced, bool glued);
  void close();
  void put(uint32_t code);

  CharTables tables_;
  CharMasks masks_;
  std::vector<uint8_t> text_;
  std::vector<Token> tokens_;
  uint8_t *out_ = nullptr;
  int64_t text_size_ = 0;
  int64_t begin_ = -1; // of the open token, or -1
  int64_t n_chars_ = 0;
  bool unspaced_ = false;
};

// Decodes one code point and moves on; malformed bytes count as separators.
uint32_t next_code(const uint8_t *&at, const uint8_t *end);

// The rows that hold a complex code point (see CharTables::folds).
std::vector<int64_t> complex_rows(const TextView &texts, const CharTables &tables);

} // namespace tagwood
