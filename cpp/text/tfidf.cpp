#include "text/tfidf.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

constexpr int64_t kBlock = 64; // rows per parallel item; also: fewer rows never start a thread

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

// What one thread needs to turn texts into rows; reused from row to row.
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
    constexpr size_t kAhead = 16; // the table is larger than the caches: ask for slots before they are needed
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

} // namespace tagwood
