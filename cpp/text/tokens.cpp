#include "text/tokens.hpp"

#include "core/parallel.hpp"

namespace tagwood {

uint32_t next_code(const uint8_t *&at, const uint8_t *end) {
  const uint32_t first = *at++;
  const int more = first < 0xC0 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  if (more == 0 || end - at < more)
    return first < 0x80 ? first : 0;
  uint32_t code = first & (0x3Fu >> more);
  for (int i = 0; i < more; ++i)
    code = (code << 6) | (*at++ & 0x3Fu);
  return code;
}

std::vector<int64_t> complex_rows(const TextView &texts, const CharTables &tables) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < texts.n_rows; ++row) {
    const uint8_t *at = texts.bytes + texts.offsets[row];
    const uint8_t *end = texts.bytes + texts.offsets[row + 1];
    while (at < end) {
      uint64_t block;
      if (end - at >= 8 && (std::memcpy(&block, at, 8), (block & 0x8080808080808080ull) == 0)) {
        at += 8;
        continue;
      }
      const uint32_t code = next_code(at, end);
      if (code >= 0x80 && (code >= tables.n_folds || tables.folds[code] == kComplex)) {
        rows.push_back(row);
        break;
      }
    }
  }
  return rows;
}

namespace {

// Bytes of 0 and 1 to bits.
inline uint64_t pack_flags(const uint8_t *flags) {
  uint64_t bits = 0;
  for (int group = 0; group < 8; ++group) {
    uint64_t eight;
    std::memcpy(&eight, flags + 8 * group, 8);
    bits |= (eight * 0x0102040810204080ull >> 56) << (8 * group);
  }
  return bits;
}

TAGWOOD_HOT void fill_block(const uint8_t *bytes, uint8_t case_bit, uint8_t *lower, uint64_t *word, uint64_t *other) {
  uint8_t is_word[64], is_other[64];
  for (int i = 0; i < 64; ++i) {
    const uint8_t byte = bytes[i];
    const uint8_t upper = static_cast<uint8_t>(byte - 'A') < 26;
    const uint8_t letter = static_cast<uint8_t>((byte | 0x20) - 'a') < 26;
    const uint8_t digit = static_cast<uint8_t>(byte - '0') < 10;
    lower[i] = byte | (upper ? case_bit : 0);
    is_word[i] = letter | digit | (byte == '_');
    is_other[i] = byte >> 7;
  }
  *word = pack_flags(is_word);
  *other = pack_flags(is_other);
}

// Copies 16 bytes at once; bytes after the word are overwritten later.
inline void copy_word(uint8_t *to, const uint8_t *from, int64_t length) {
  std::memcpy(to, from, 16);
  if (length > 16)
    std::memcpy(to + 16, from + 16, length - 16);
}

} // namespace

void CharMasks::fill(const uint8_t *bytes, int64_t size, bool fold) {
  const int64_t n_blocks = (size + 63) / 64;
  if (static_cast<int64_t>(word.size()) < n_blocks) {
    word.resize(n_blocks + n_blocks / 2);
    other.resize(word.size());
    lower.resize(word.size() * 64 + 16); // hashing and copying read up to 15 bytes on
  }
  const uint8_t case_bit = fold ? 0x20 : 0;
  for (int64_t block = 0; block < n_blocks; ++block) {
    const uint8_t *from = bytes + 64 * block;
    uint8_t tail[64] = {};
    if (size - 64 * block < 64) {
      std::memcpy(tail, from, size - 64 * block);
      from = tail;
    }
    fill_block(from, case_bit, lower.data() + 64 * block, &word[block], &other[block]);
  }
}

int64_t CharMasks::next_char(int64_t at, int64_t size) const {
  if (at >= size)
    return size;
  int64_t block = at >> 6;
  uint64_t bits = (word[block] | other[block]) & (~uint64_t{0} << (at & 63));
  while (bits == 0) {
    if (++block << 6 >= size)
      return size;
    bits = word[block] | other[block];
  }
  return (block << 6) + std::countr_zero(bits);
}

int64_t CharMasks::word_end(int64_t at, int64_t size) const {
  int64_t block = at >> 6;
  uint64_t bits = ~word[block] & (~uint64_t{0} << (at & 63));
  while (bits == 0) {
    if (++block << 6 >= size)
      return size;
    bits = ~word[block];
  }
  return (block << 6) + std::countr_zero(bits); // bytes after the end are no word characters
}

Tokenizer::Tokenizer(const CharTables &tables) : tables_(tables) {}

void Tokenizer::run(const uint8_t *begin, const uint8_t *end) {
  const int64_t size = end - begin;
  // A fold makes at most two code points of up to three bytes from two bytes or more; words are copied 16 bytes a time.
  const size_t room = static_cast<size_t>(3 * size) + 64;
  if (text_.size() < room)
    text_.resize(room + room / 2);
  masks_.fill(begin, size, tables_.n_folds > 0);
  tokens_.clear();
  out_ = text_.data();
  begin_ = -1;
  for (int64_t at = 0; (at = masks_.next_char(at, size)) < size;)
    at = masks_.is_other(at) ? add_other(begin, at, size) : add_ascii(at, size);
  close();
  *out_++ = ' ';
  text_size_ = out_ - text_.data();
}

// Adds the run of ASCII word characters at `at`; returns its end.
int64_t Tokenizer::add_ascii(int64_t at, int64_t size) {
  const int64_t end = masks_.word_end(at, size);
  const int64_t length = end - at;
  const uint8_t *from = masks_.lower.data() + at;
  const bool goes_on = end < size && masks_.is_other(end);
  if (begin_ < 0 && !goes_on) { // a word by itself: the usual case
    if (length >= 2) {
      const int64_t begin = out_ - text_.data() + 1;
      *out_ = ' ';
      copy_word(out_ + 1, from, length);
      out_ += length + 1;
      tokens_.push_back({begin, begin + length, hash_bytes(from, length, kWordSeed), false});
    }
    return end;
  }
  if (begin_ < 0 || unspaced_) {
    close();
    open(false, false);
  }
  copy_word(out_, from, length);
  out_ += length;
  n_chars_ += length;
  if (!goes_on)
    close();
  return end;
}

// Adds the character outside ASCII at `at`; returns its end.
int64_t Tokenizer::add_other(const uint8_t *bytes, int64_t at, int64_t size) {
  const uint8_t *next = bytes + at;
  const uint32_t code = next_code(next, bytes + size);
  const uint32_t fold = code < tables_.n_folds ? tables_.folds[code] : kComplex;
  add(fold == kComplex ? code : fold & 0xFFFF);
  if (fold != kComplex && fold >> 16)
    add(fold >> 16);
  const int64_t end = next - bytes;
  if (masks_.next_char(end, size) != end)
    close();
  return end;
}

void Tokenizer::add(uint32_t code) {
  switch (tables_.class_of(code)) {
  case kIgnored:
    return;
  case kSeparator:
    return close();
  case kUnspaced: {
    const bool glued = begin_ >= 0 && unspaced_;
    close();
    open(true, glued);
    break;
  }
  case kWord:
    if (begin_ < 0 || unspaced_) {
      close();
      open(false, false);
    }
    break;
  case kMark:
    if (begin_ < 0)
      open(false, false);
    break;
  }
  put(code);
  ++n_chars_;
}

void Tokenizer::open(bool unspaced, bool glued) {
  if (!glued)
    *out_++ = ' ';
  begin_ = out_ - text_.data();
  n_chars_ = 0;
  unspaced_ = unspaced;
}

void Tokenizer::close() {
  if (begin_ < 0)
    return;
  if (!unspaced_ && n_chars_ < 2) {
    out_ = text_.data() + begin_ - 1;
  } else {
    const int64_t end = out_ - text_.data();
    tokens_.push_back({begin_, end, hash_bytes(text_.data() + begin_, end - begin_, kWordSeed), unspaced_});
  }
  begin_ = -1;
}

void Tokenizer::put(uint32_t code) {
  if (code < 0x80) {
    *out_++ = static_cast<uint8_t>(code);
  } else if (code < 0x800) {
    *out_++ = static_cast<uint8_t>(0xC0 | code >> 6);
    *out_++ = static_cast<uint8_t>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *out_++ = static_cast<uint8_t>(0xE0 | code >> 12);
    *out_++ = static_cast<uint8_t>(0x80 | (code >> 6 & 0x3F));
    *out_++ = static_cast<uint8_t>(0x80 | (code & 0x3F));
  } else {
    *out_++ = static_cast<uint8_t>(0xF0 | code >> 18);
    *out_++ = static_cast<uint8_t>(0x80 | (code >> 12 & 0x3F));
    *out_++ = static_cast<uint8_t>(0x80 | (code >> 6 & 0x3F));
    *out_++ = static_cast<uint8_t>(0x80 | (code & 0x3F));
  }
}

} // namespace tagwood
