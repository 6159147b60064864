#include "text/words.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

constexpr int64_t kBlock = 64; // rows per parallel item; also: fewer rows never start a thread

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

} // namespace tagwood
