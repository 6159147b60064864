#include "text/terms.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

constexpr int64_t kBlock = 64; // rows per parallel item; fewer rows never start a thread

const std::array<double, 256> kSublinear = [] {
  std::array<double, 256> values{};
  for (int count = 1; count < 256; ++count)
    values[count] = 1.0 + std::log(static_cast<double>(count));
  return values;
}();

double term_weight(int64_t count, bool sublinear) {
  if (!sublinear)
    return static_cast<double>(count);
  return count < 256 ? kSublinear[count] : 1.0 + std::log(static_cast<double>(count));
}

// Turns texts into rows; one per thread.
class RowMaker {
public:
  RowMaker(const CharTables &tables, const Ngrams &ngrams, const VocabularyView &vocabulary, const Weighting &weighting)
      : words_(tables), ngrams_(ngrams), vocabulary_(vocabulary), weighting_(weighting) {}

  void append(const uint8_t *begin, const uint8_t *end, TextRows &out) {
    words_.run(begin, end);
    keys_.clear();
    auto keep = [this](uint64_t key, const Origin &) { keys_.push_back(key); };
    each_word_ngram(words_, ngrams_, keep);
    each_char_ngram(words_, ngrams_, starts_, keep);
    find_ids();
    sort_values(ids_, id_scratch_, std::bit_width(static_cast<uint64_t>(weighting_.n_features)));
    write(out);
  }

private:
  void find_ids() {
    ids_.clear();
    if (ngrams_.hash_bits) {
      for (const uint64_t key : keys_)
        if (weighting_.idf[key] != 0)
          ids_.push_back(static_cast<uint32_t>(key));
      return;
    }
    constexpr size_t kAhead = 16; // the table is larger than the caches: prefetch slots
    const size_t n = keys_.size();
    ids_.resize(n);
    for (size_t i = 0; i < std::min(kAhead, n); ++i)
      vocabulary_.prefetch(keys_[i]);
    size_t found = 0;
    for (size_t i = 0; i < n; ++i) {
      vocabulary_.prefetch(keys_[std::min(i + kAhead, n - 1)]);
      const int64_t id = vocabulary_.find(keys_[i]);
      ids_[found] = static_cast<uint32_t>(id);
      found += id >= 0; // no branch: known and unknown n-grams follow each other without a pattern
    }
    ids_.resize(found);
  }

  void write(TextRows &out) {
    const size_t start = out.indices.size();
    out.indices.resize(start + ids_.size());
    weights_.resize(ids_.size());
    int32_t *columns = out.indices.data() + start;
    size_t size = 0;
    double sum = 0;
    for (size_t i = 0, next; i < ids_.size(); i = next) {
      const uint32_t id = ids_[i];
      for (next = i + 1; next < ids_.size() && ids_[next] == id;)
        ++next;
      const double weight = term_weight(static_cast<int64_t>(next - i), weighting_.sublinear) * weighting_.idf[id];
      sum += weight * weight;
      weights_[size] = weight;
      columns[size++] = static_cast<int32_t>(id);
    }
    out.indices.resize(start + size);
    out.data.resize(start + size);
    const double scale = sum > 0 ? 1.0 / std::sqrt(sum) : 0.0;
    for (size_t i = 0; i < size; ++i)
      out.data[start + i] = static_cast<float>(weights_[i] * scale);
    out.indptr.push_back(static_cast<int64_t>(start + size));
  }

  Tokenizer words_;
  Ngrams ngrams_;
  VocabularyView vocabulary_;
  Weighting weighting_;
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> ids_, id_scratch_;
  std::vector<int64_t> starts_;
  std::vector<double> weights_;
};

TextRows join_blocks(std::vector<TextRows> &blocks, int64_t n_rows, int threads) {
  TextRows out;
  std::vector<int64_t> begins(blocks.size() + 1, 0);
  for (size_t b = 0; b < blocks.size(); ++b)
    begins[b + 1] = begins[b] + static_cast<int64_t>(blocks[b].indices.size());
  out.indptr.resize(n_rows + 1);
  out.indices.resize(begins.back());
  out.data.resize(begins.back());
  parallel_chunks(static_cast<int64_t>(blocks.size()), threads, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) {
      std::copy(blocks[b].indices.begin(), blocks[b].indices.end(), out.indices.begin() + begins[b]);
      std::copy(blocks[b].data.begin(), blocks[b].data.end(), out.data.begin() + begins[b]);
      for (size_t r = 1; r < blocks[b].indptr.size(); ++r)
        out.indptr[b * kBlock + static_cast<int64_t>(r)] = begins[b] + blocks[b].indptr[r];
      blocks[b] = TextRows();
    }
  });
  return out;
}

} // namespace

std::vector<uint64_t> build_vocabulary(const uint64_t *keys, int64_t n_features) {
  const int64_t n_slots = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n_features + 1)));
  std::vector<uint64_t> slots(n_slots, 0);
  const VocabularyView view(slots.data(), n_slots, n_features);
  for (int64_t id = 0; id < n_features; ++id) {
    int64_t at = static_cast<int64_t>(keys[id] & (n_slots - 1));
    while (slots[at] != 0)
      at = (at + 1) & (n_slots - 1);
    slots[at] = (keys[id] & ~view.id_mask) | static_cast<uint64_t>(id + 1);
  }
  return slots;
}

TextRows tfidf_rows(const TextView &texts, const CharTables &tables, const Ngrams &ngrams,
                    const VocabularyView &vocabulary, const Weighting &weighting, int threads) {
  const int64_t n_blocks = (texts.n_rows + kBlock - 1) / kBlock;
  std::vector<TextRows> blocks(n_blocks);
  const int workers = static_cast<int>(std::min<int64_t>(std::max(1, threads), std::max<int64_t>(1, n_blocks)));
  std::vector<RowMaker> makers(workers, RowMaker(tables, ngrams, vocabulary, weighting));
  parallel_chunks(n_blocks, workers, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t b = begin; b < end; ++b) {
      blocks[b].indptr.push_back(0);
      for (int64_t row = b * kBlock; row < std::min(texts.n_rows, (b + 1) * kBlock); ++row)
        makers[thread].append(texts.bytes + texts.offsets[row], texts.bytes + texts.offsets[row + 1], blocks[b]);
    }
  });
  if (n_blocks == 1)
    return std::move(blocks[0]);
  return join_blocks(blocks, texts.n_rows, workers);
}

namespace {

constexpr int64_t kRowsPerItem = 32;
constexpr int kPartBits = 6; // keys are distributed by their top bits, so that sorted parts make a sorted whole
constexpr int64_t kParts = int64_t{1} << kPartBits;

using Parts = std::vector<std::vector<uint64_t>>;

void share_out(const TextView &texts, const CharTables &tables, const Ngrams &ngrams, int key_bits, int threads,
               std::vector<Parts> &per_thread) {
  struct Scratch {
    std::vector<Tokenizer> words;
    std::vector<uint64_t> keys, spare;
    std::vector<int64_t> starts;
  };
  std::vector<Scratch> scratches(per_thread.size());
  parallel_chunks(texts.n_rows, threads, kRowsPerItem, [&](int64_t begin, int64_t end, int thread) {
    auto &[words, keys, spare, starts] = scratches[thread];
    if (words.empty())
      words.emplace_back(tables);
    for (int64_t row = begin; row < end; ++row) {
      words[0].run(texts.bytes + texts.offsets[row], texts.bytes + texts.offsets[row + 1]);
      keys.clear();
      auto keep = [&keys](uint64_t key, const Origin &) { keys.push_back(key); };
      each_word_ngram(words[0], ngrams, keep);
      each_char_ngram(words[0], ngrams, starts, keep);
      sort_values(keys, spare, key_bits);
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
      for (const uint64_t key : keys)
        per_thread[thread][key >> (key_bits - kPartBits)].push_back(key);
    }
  });
}

// One part: the keys of all threads together, sorted, counted.
TermCounts count_part(std::vector<Parts> &per_thread, int64_t part, int key_bits) {
  std::vector<uint64_t> keys, spare;
  for (Parts &parts : per_thread) {
    keys.insert(keys.end(), parts[part].begin(), parts[part].end());
    std::vector<uint64_t>().swap(parts[part]);
  }
  sort_values(keys, spare, key_bits - kPartBits); // the top bits are the same
  TermCounts out;
  for (size_t i = 0, next; i < keys.size(); i = next) {
    for (next = i + 1; next < keys.size() && keys[next] == keys[i];)
      ++next;
    out.keys.push_back(keys[i]);
    out.counts.push_back(static_cast<int64_t>(next - i));
  }
  return out;
}

struct Found {
  int32_t id;
  int64_t row;
  int64_t begin, end; // in the finder's bytes
};

// The features that one thread has found, with their spellings.
struct Finder {
  std::vector<Tokenizer> words;
  std::vector<int64_t> starts;
  std::vector<uint8_t> seen;
  std::vector<uint8_t> bytes;
  std::vector<Found> found;
};

void find_in_row(Finder &finder, const TextView &texts, int64_t row, const Ngrams &ngrams,
                 const VocabularyView &vocabulary, uint8_t char_mark) {
  const Tokenizer &words = finder.words[0];
  finder.words[0].run(texts.bytes + texts.offsets[row], texts.bytes + texts.offsets[row + 1]);
  auto look = [&](uint64_t key, const Origin &origin) {
    const int64_t id = vocabulary.find(key);
    if (id < 0 || finder.seen[id])
      return;
    finder.seen[id] = 1;
    const int64_t begin = static_cast<int64_t>(finder.bytes.size());
    if (origin.chars && char_mark)
      finder.bytes.push_back(char_mark);
    spell(words, origin, finder.bytes);
    finder.found.push_back({static_cast<int32_t>(id), row, begin, static_cast<int64_t>(finder.bytes.size())});
  };
  each_word_ngram(words, ngrams, look);
  each_char_ngram(words, ngrams, finder.starts, look);
}

} // namespace

TermCounts count_terms(const TextView &texts, const CharTables &tables, const Ngrams &ngrams, int threads) {
  const int key_bits = ngrams.hash_bits ? ngrams.hash_bits : 64;
  std::vector<Parts> per_thread(std::max(1, threads), Parts(kParts));
  share_out(texts, tables, ngrams, key_bits, threads, per_thread);
  std::vector<TermCounts> parts(kParts);
  parallel_chunks(kParts, threads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t part = begin; part < end; ++part)
      parts[part] = count_part(per_thread, part, key_bits);
  });
  TermCounts out;
  for (TermCounts &part : parts) {
    out.keys.insert(out.keys.end(), part.keys.begin(), part.keys.end());
    out.counts.insert(out.counts.end(), part.counts.begin(), part.counts.end());
    part = TermCounts();
  }
  return out;
}

TermCounts merge_counts(const uint64_t *left_keys, const int64_t *left_counts, int64_t n_left,
                        const uint64_t *right_keys, const int64_t *right_counts, int64_t n_right) {
  TermCounts out;
  out.keys.reserve(n_left + n_right);
  out.counts.reserve(n_left + n_right);
  int64_t l = 0, r = 0;
  while (l < n_left || r < n_right) {
    const bool left = r >= n_right || (l < n_left && left_keys[l] <= right_keys[r]);
    const bool right = l >= n_left || (r < n_right && right_keys[r] <= left_keys[l]);
    out.keys.push_back(left ? left_keys[l] : right_keys[r]);
    out.counts.push_back((left ? left_counts[l] : 0) + (right ? right_counts[r] : 0));
    l += left;
    r += right;
  }
  return out;
}

Spellings spell_terms(const TextView &texts, const CharTables &tables, const Ngrams &ngrams,
                      const VocabularyView &vocabulary, const uint8_t *known, uint8_t char_mark, int threads) {
  std::vector<Finder> finders(std::max(1, threads));
  // A thread gets its rows in rising order, so it finds the first of them with a feature; the smallest row wins.
  parallel_chunks(texts.n_rows, threads, kRowsPerItem, [&](int64_t begin, int64_t end, int thread) {
    Finder &finder = finders[thread];
    if (finder.words.empty()) {
      finder.words.emplace_back(tables);
      finder.seen.assign(known, known + vocabulary.n_features);
    }
    for (int64_t row = begin; row < end; ++row)
      find_in_row(finder, texts, row, ngrams, vocabulary, char_mark);
  });
  std::vector<std::pair<Found, const Finder *>> all;
  for (const Finder &finder : finders)
    for (const Found &found : finder.found)
      all.emplace_back(found, &finder);
  std::sort(all.begin(), all.end(), [](const auto &a, const auto &b) {
    return a.first.id != b.first.id ? a.first.id < b.first.id : a.first.row < b.first.row;
  });
  Spellings out;
  out.offsets.push_back(0);
  for (const auto &[found, finder] : all) {
    if (!out.ids.empty() && out.ids.back() == found.id)
      continue;
    out.ids.push_back(found.id);
    out.bytes.insert(out.bytes.end(), finder->bytes.begin() + found.begin, finder->bytes.begin() + found.end);
    out.offsets.push_back(static_cast<int64_t>(out.bytes.size()));
  }
  return out;
}

} // namespace tagwood
