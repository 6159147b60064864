// Rows of word ids, and bags of words and n-grams.
#include <algorithm>

#include "core/parallel.hpp"
#include "text/terms.hpp"

namespace tagwood {

namespace {

constexpr int64_t kBlock = 64; // rows per parallel item; fewer rows never start a thread

WordRows join_blocks(const std::vector<WordRows> &blocks) {
  WordRows out;
  out.indptr.push_back(0);
  size_t size = 0;
  for (const WordRows &block : blocks)
    size += block.ids.size();
  out.ids.reserve(size);
  for (const WordRows &block : blocks) {
    const int64_t before = static_cast<int64_t>(out.ids.size());
    for (const int64_t end : block.indptr)
      out.indptr.push_back(before + end);
    out.ids.insert(out.ids.end(), block.ids.begin(), block.ids.end());
  }
  return out;
}

} // namespace

WordRows word_rows(const TextView &texts, const CharTables &tables, const VocabularyView &words, int64_t longest,
                   int threads) {
  const int64_t n_blocks = std::max<int64_t>(1, (texts.n_rows + kBlock - 1) / kBlock);
  std::vector<WordRows> blocks(n_blocks); // indptr holds the end of each row
  const int workers = static_cast<int>(std::min<int64_t>(std::max(1, threads), n_blocks));
  std::vector<Tokenizer> tokenizers(workers, Tokenizer(tables));
  parallel_chunks(n_blocks, workers, 1, [&](int64_t begin, int64_t end, int thread) {
    Tokenizer &tokenizer = tokenizers[thread];
    for (int64_t b = begin; b < end; ++b)
      for (int64_t row = b * kBlock; row < std::min(texts.n_rows, (b + 1) * kBlock); ++row) {
        tokenizer.run(texts.bytes + texts.offsets[row], texts.bytes + texts.offsets[row + 1]);
        const auto &tokens = tokenizer.tokens();
        const int64_t n = std::min<int64_t>(longest, static_cast<int64_t>(tokens.size()));
        for (int64_t i = 0; i < n; ++i)
          blocks[b].ids.push_back(static_cast<int32_t>(words.find(tokens[i].hash)));
        blocks[b].indptr.push_back(static_cast<int64_t>(blocks[b].ids.size()));
      }
  });
  return join_blocks(blocks);
}

namespace {

// Turns texts into bags; one per thread.
class BagMaker {
public:
  BagMaker(const CharTables &tables, const BagFeatures &features) : words_(tables), features_(features) {}

  void append(const uint8_t *begin, const uint8_t *end, TextRows &out) {
    words_.run(begin, end);
    ids_.assign(1, 0);
    n_unknown_ = 0;
    for (const Token &token : words_.tokens())
      if (const int64_t id = features_.words.find(token.hash); id >= 0)
        keep(id + 1);
    if (features_.bucket_bits > 0) {
      const Ngrams ngrams{2, features_.longest, 0, 0, features_.bucket_bits};
      each_word_ngram(words_, ngrams, [this](uint64_t bucket, const Origin &) {
        if (!keep(features_.buckets[bucket]))
          n_unknown_ += features_.counts_unknown;
      });
    }
    sort_values(ids_, spare_, std::bit_width(static_cast<uint64_t>(features_.n_features)));
    write(out);
  }

private:
  bool keep(int64_t id) {
    const bool known = id >= 0 && id < features_.n_features;
    if (known)
      ids_.push_back(static_cast<uint32_t>(id));
    return known;
  }

  void write(TextRows &out) {
    const float share = 1.0f / static_cast<float>(ids_.size() + n_unknown_);
    for (size_t i = 0, next; i < ids_.size(); i = next) {
      for (next = i + 1; next < ids_.size() && ids_[next] == ids_[i];)
        ++next;
      out.indices.push_back(static_cast<int32_t>(ids_[i]));
      out.data.push_back(share * static_cast<float>(next - i));
    }
    out.indptr.push_back(static_cast<int64_t>(out.indices.size()));
  }

  Tokenizer words_;
  BagFeatures features_;
  std::vector<uint32_t> ids_, spare_;
  size_t n_unknown_ = 0;
};

TextRows join_blocks(std::vector<TextRows> &blocks) {
  TextRows out;
  out.indptr.push_back(0);
  size_t size = 0;
  for (const TextRows &block : blocks)
    size += block.indices.size();
  out.indices.reserve(size);
  out.data.reserve(size);
  for (TextRows &block : blocks) {
    const int64_t before = static_cast<int64_t>(out.indices.size());
    for (size_t r = 1; r < block.indptr.size(); ++r)
      out.indptr.push_back(before + block.indptr[r]);
    out.indices.insert(out.indices.end(), block.indices.begin(), block.indices.end());
    out.data.insert(out.data.end(), block.data.begin(), block.data.end());
    block = TextRows();
  }
  return out;
}

} // namespace

TextRows bag_rows(const TextView &texts, const CharTables &tables, const BagFeatures &features, int threads) {
  const int64_t n_blocks = std::max<int64_t>(1, (texts.n_rows + kBlock - 1) / kBlock);
  std::vector<TextRows> blocks(n_blocks);
  const int workers = static_cast<int>(std::min<int64_t>(std::max(1, threads), n_blocks));
  std::vector<BagMaker> makers(workers, BagMaker(tables, features));
  parallel_chunks(n_blocks, workers, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t b = begin; b < end; ++b) {
      blocks[b].indptr.push_back(0);
      for (int64_t row = b * kBlock; row < std::min(texts.n_rows, (b + 1) * kBlock); ++row)
        makers[thread].append(texts.bytes + texts.offsets[row], texts.bytes + texts.offsets[row + 1], blocks[b]);
    }
  });
  return n_blocks == 1 ? std::move(blocks[0]) : join_blocks(blocks);
}

} // namespace tagwood
