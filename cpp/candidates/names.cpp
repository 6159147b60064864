#include "candidates/names.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

std::vector<int32_t> distinct_words(const WordsView &rows, int64_t row) {
  std::vector<int32_t> words(rows.words + rows.indptr[row], rows.words + rows.indptr[row + 1]);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

// The words of one text, in a hash table: how often each occurs, and where. Its size depends on the text alone, so that
// one text costs the same with a million names as with a hundred.
class TextWords {
public:
  struct Word {
    int32_t word, count, first, last;
  };

  void read(const int32_t *begin, const int32_t *end) {
    begin_ = begin;
    length_ = end - begin;
    bits_ = std::bit_width(static_cast<uint64_t>(2 * length_ + 2));
    table_.assign(int64_t{1} << bits_, Word{-1, 0, 0, 0});
    previous_.resize(length_);
    distinct_.clear();
    for (int32_t at = 0; at < length_; ++at) {
      if (begin[at] < 0)
        continue;
      Word &word = table_[place(begin[at])];
      if (word.count++ == 0) {
        word.word = begin[at];
        word.first = at;
        distinct_.push_back(begin[at]);
      }
      previous_[at] = word.count == 1 ? -1 : word.last;
      word.last = at;
    }
  }

  const std::vector<int32_t> &distinct() const { return distinct_; }
  int64_t length() const { return length_; }
  const Word &find(int32_t word) const { return table_[place(word)]; } // count 0: not in the text

  // How often a name whose words all occur is in the text word after word.
  int32_t phrases(const int32_t *name, int64_t size) const {
    int64_t rarest = 0;
    for (int64_t i = 1; i < size; ++i)
      if (find(name[i]).count < find(name[rarest]).count)
        rarest = i;
    int32_t found = 0;
    for (int64_t at = find(name[rarest]).last; at >= 0; at = previous_[at])
      if (const int64_t start = at - rarest; start >= 0 && start + size <= length_)
        found += std::equal(name, name + size, begin_ + start);
    return found;
  }

private:
  size_t place(int32_t word) const {
    size_t at = (static_cast<uint32_t>(word) * uint64_t{0x9E3779B97F4A7C15}) >> (64 - bits_);
    while (table_[at].count > 0 && table_[at].word != word)
      at = (at + 1) & (table_.size() - 1);
    return at;
  }

  const int32_t *begin_ = nullptr;
  int64_t length_ = 0;
  int bits_ = 1;
  std::vector<Word> table_;
  std::vector<int32_t> previous_, distinct_; // previous_: the same word's occurrence before this one, or -1
};

bool covers(const NamesView &index, const TextWords &text, int32_t name) {
  float covered = 0, total = 0;
  for (int64_t i = index.names.indptr[name]; i < index.names.indptr[name + 1]; ++i) {
    const int32_t word = index.names.words[i];
    total += index.weight[word];
    covered += text.find(word).count > 0 ? index.weight[word] : 0.0f;
  }
  return covered >= index.min_coverage * total;
}

void describe(const NamesView &index, const TextWords &text, int32_t name, NameMatches &out) {
  const int32_t *words = index.names.words + index.names.indptr[name];
  const int64_t size = index.names.indptr[name + 1] - index.names.indptr[name];
  float covered = 0, total = 0;
  int32_t count = INT32_MAX, first = INT32_MAX;
  bool whole = true;
  for (int64_t i = 0; i < size; ++i) {
    const TextWords::Word &word = text.find(words[i]);
    total += index.weight[words[i]];
    whole = whole && word.count > 0;
    if (word.count == 0)
      continue;
    covered += index.weight[words[i]];
    count = std::min(count, word.count);
    first = std::min(first, word.first);
  }
  out.names.push_back(name);
  out.coverage.push_back(total > 0 ? covered / total : 0.0f);
  out.count.push_back(count);
  out.phrases.push_back(!whole ? 0 : size == 1 ? count : text.phrases(words, size));
  out.first.push_back(static_cast<float>(first) / static_cast<float>(text.length()));
}

void match_text(const NamesView &index, const TextWords &text, std::vector<int32_t> &found, NameMatches &out) {
  found.clear();
  for (const int32_t word : text.distinct())
    for (int64_t i = index.ptr[word]; i < index.ptr[word + 1]; ++i)
      if (covers(index, text, index.by_word[i]))
        found.push_back(index.by_word[i]);
  std::sort(found.begin(), found.end()); // a name may be found by several of its words
  found.erase(std::unique(found.begin(), found.end()), found.end());
  for (const int32_t name : found)
    describe(index, text, name, out);
}

template <class T> void append(std::vector<T> &to, const std::vector<T> &from) {
  to.insert(to.end(), from.begin(), from.end());
}

} // namespace

void prefix_words(const WordsView &names, const float *weight, int64_t n_words, float min_coverage,
                  std::vector<int64_t> &ptr, std::vector<int32_t> &by_word) {
  std::vector<std::pair<int32_t, int32_t>> pairs; // word, name
  for (int64_t name = 0; name < names.n_rows; ++name) {
    std::vector<int32_t> words = distinct_words(names, name);
    std::sort(words.begin(), words.end(),
              [&](int32_t a, int32_t b) { return weight[a] != weight[b] ? weight[a] > weight[b] : a < b; });
    float total = 0;
    for (int64_t i = names.indptr[name]; i < names.indptr[name + 1]; ++i)
      total += weight[names.words[i]];
    float left = total;
    for (const int32_t word : words) {
      if (left < min_coverage * total * 0.9999f)
        break;
      pairs.emplace_back(word, static_cast<int32_t>(name));
      left -= weight[word] * static_cast<float>(std::count(names.words + names.indptr[name],
                                                           names.words + names.indptr[name + 1], word));
    }
  }
  std::sort(pairs.begin(), pairs.end());
  ptr.assign(n_words + 1, 0);
  by_word.resize(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    ++ptr[pairs[i].first + 1];
    by_word[i] = pairs[i].second;
  }
  std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
}

NameMatches match_names(const NamesView &index, const WordsView &texts, int threads) {
  constexpr int64_t kChunk = 64;
  const int64_t n_chunks = (texts.n_rows + kChunk - 1) / kChunk;
  std::vector<NameMatches> parts(n_chunks);
  parallel_chunks(n_chunks, threads, 1, [&](int64_t begin, int64_t end, int) {
    TextWords text;
    std::vector<int32_t> found;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      NameMatches &part = parts[chunk];
      for (int64_t row = chunk * kChunk; row < std::min(texts.n_rows, (chunk + 1) * kChunk); ++row) {
        text.read(texts.words + texts.indptr[row], texts.words + texts.indptr[row + 1]);
        match_text(index, text, found, part);
        part.indptr.push_back(static_cast<int64_t>(part.names.size()));
      }
    }
  });
  NameMatches all;
  all.indptr.push_back(0);
  for (const NameMatches &part : parts) {
    const int64_t before = all.indptr.back();
    for (const int64_t end : part.indptr)
      all.indptr.push_back(before + end);
    append(all.names, part.names);
    append(all.coverage, part.coverage);
    append(all.count, part.count);
    append(all.phrases, part.phrases);
    append(all.first, part.first);
  }
  return all;
}

} // namespace tagwood
