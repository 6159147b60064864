// UTF-8 texts split into words, and 64-bit keys of words and n-grams.
//
// Unicode properties come in as tables that Python builds from its own database. A key identifies its n-gram: among 100
// million different n-grams two share a key with probability 0.03 %.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tagwood {

static_assert(std::endian::native == std::endian::little, "keys are defined by little-endian loads");

constexpr uint64_t kLengthFactor = 0x9E3779B97F4A7C15ull;
constexpr uint64_t kStep = 0xD6E8FEB86659FD93ull;
constexpr uint64_t kLast = 0xA0761D6478BD642Full;
constexpr uint64_t kLeft = 0xE7037ED1A0B428DBull;
constexpr uint64_t kRight = 0x8EBC6AF09C88C6E3ull;
constexpr uint64_t kWordSeed = 0x589965CC75374CC3ull;
constexpr uint64_t kCharSeed = 0x1D8E4E27C47D124Full;

// High and low half of the product, folded into one.
inline uint64_t fold_product(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// The first `size` bytes (0 to 8) of eight, the others zero.
inline uint64_t load_bytes(const uint8_t *bytes, int64_t size) {
  uint64_t block;
  std::memcpy(&block, bytes, 8);
  return size <= 0 ? 0 : block & (~uint64_t{0} >> (64 - 8 * std::min<int64_t>(size, 8)));
}

// Key of `size` bytes; up to 15 bytes after them are read and ignored, so they must be readable.
inline uint64_t hash_bytes(const uint8_t *bytes, int64_t size, uint64_t seed) {
  uint64_t state = seed ^ (static_cast<uint64_t>(size) * kLengthFactor);
  do { // nearly every word fits into the first 16 bytes
    state = fold_product(state ^ load_bytes(bytes, size), kStep ^ load_bytes(bytes + 8, size - 8));
    bytes += 16;
    size -= 16;
  } while (size > 0);
  return fold_product(state, kLast);
}

// Key of an n-gram from the key of its first n - 1 tokens and that of its last one.
inline uint64_t join_keys(uint64_t left, uint64_t right) { return fold_product(left ^ kLeft, right ^ kRight); }

// Sorts values of at most `bits` bits; long lists by radix with `scratch` as the second buffer.
template <class T> void sort_values(std::vector<T> &values, std::vector<T> &scratch, int bits) {
  constexpr int kMaxDigit = 11;
  if (values.size() < 128) {
    std::sort(values.begin(), values.end());
    return;
  }
  scratch.resize(values.size());
  const int passes = std::max(1, (bits + kMaxDigit - 1) / kMaxDigit);
  const int digit = (bits + passes - 1) / passes;
  const uint32_t mask = (1u << digit) - 1;
  uint32_t counts[1 << kMaxDigit];
  for (int shift = 0; shift < bits; shift += digit) {
    std::fill_n(counts, mask + 1, 0u);
    for (const T value : values)
      ++counts[(value >> shift) & mask];
    uint32_t at = 0;
    for (uint32_t i = 0; i <= mask; ++i) {
      const uint32_t here = counts[i];
      counts[i] = at;
      at += here;
    }
    for (const T value : values)
      scratch[counts[(value >> shift) & mask]++] = value;
    values.swap(scratch);
  }
}

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

// The words of one text. In `text` each follows a space, except an unspaced one that touches the one before;
// a space ends the text. Words of one character are dropped unless unspaced. Reused from text to text.
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
