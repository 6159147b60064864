#include "text_tokens.hpp"

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

Tokenizer::Tokenizer(const CharTables &tables) : tables_(tables) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    ascii_[byte] = 0;
    if (byte < 0x80 && tables.class_of(byte) == kWord)
      ascii_[byte] = static_cast<uint8_t>(byte < tables.n_folds ? tables.folds[byte] & 0x7F : byte);
  }
}

void Tokenizer::run(const uint8_t *begin, const uint8_t *end) {
  // A fold makes at most two code points of up to three bytes from two bytes or more; hash_bytes reads 7 more bytes.
  const size_t room = static_cast<size_t>(3 * (end - begin)) + 32;
  if (text_.size() < room)
    text_.resize(room + room / 2);
  tokens_.clear();
  out_ = text_.data();
  begin_ = -1;
  for (const uint8_t *at = begin; at < end;) {
    uint8_t folded = ascii_[*at];
    if (folded) {
      if (begin_ < 0 || unspaced_) {
        close();
        open(false, false);
      }
      const uint8_t *start = at;
      do {
        *out_++ = folded;
      } while (++at < end && (folded = ascii_[*at]));
      n_chars_ += at - start;
    } else if (*at < 0x80) {
      close();
      ++at;
    } else {
      const uint32_t code = next_code(at, end);
      const uint32_t fold = code < tables_.n_folds ? tables_.folds[code] : kComplex;
      add(fold == kComplex ? code : fold & 0xFFFF);
      if (fold != kComplex && fold >> 16)
        add(fold >> 16);
    }
  }
  close();
  *out_++ = ' ';
  text_size_ = out_ - text_.data();
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
