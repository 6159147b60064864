#include "names/matches.hpp"

#include <algorithm>
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

// The words of one text: how often each occurs and where first. Arrays over all words, cleaned after each text.
class TextWords {
public:
  explicit TextWords(int64_t n_words) : count_(n_words, 0), first_(n_words, 0) {}

  void read(const int32_t *begin, const int32_t *end) {
    for (const int32_t word : distinct_)
      count_[word] = 0;
    distinct_.clear();
    begin_ = begin;
    end_ = end;
    for (const int32_t *at = begin; at < end; ++at) {
      if (*at < 0)
        continue;
      if (count_[*at]++ == 0) {
        first_[*at] = static_cast<int32_t>(at - begin);
        distinct_.push_back(*at);
      }
    }
  }

  const std::vector<int32_t> &distinct() const { return distinct_; }
  int32_t count(int32_t word) const { return count_[word]; }
  int32_t first(int32_t word) const { return first_[word]; }

  int32_t phrases(const int32_t *name, int64_t size) const {
    int32_t found = 0;
    for (const int32_t *at = begin_ + first_[name[0]]; at + size <= end_; ++at)
      found += std::equal(name, name + size, at);
    return found;
  }

private:
  const int32_t *begin_ = nullptr, *end_ = nullptr;
  std::vector<int32_t> count_, first_, distinct_;
};

void match_text(const NamesView &index, const TextWords &text, int64_t length, std::vector<int32_t> &candidates,
                NameMatches &out) {
  candidates.clear();
  for (const int32_t word : text.distinct())
    candidates.insert(candidates.end(), index.by_word + index.ptr[word], index.by_word + index.ptr[word + 1]);
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (const int32_t name : candidates) {
    const int32_t *words = index.names.words + index.names.indptr[name];
    const int64_t size = index.names.indptr[name + 1] - index.names.indptr[name];
    float covered = 0, total = 0;
    int32_t count = INT32_MAX, first = INT32_MAX;
    for (int64_t i = 0; i < size; ++i) {
      total += index.weight[words[i]];
      if (text.count(words[i]) == 0)
        continue;
      covered += index.weight[words[i]];
      count = std::min(count, text.count(words[i]));
      first = std::min(first, text.first(words[i]));
    }
    if (covered < index.min_coverage * total)
      continue;
    out.names.push_back(name);
    out.coverage.push_back(total > 0 ? covered / total : 0.0f);
    out.count.push_back(count);
    out.phrases.push_back(covered >= total && size > 1 ? text.phrases(words, size) : covered >= total ? count : 0);
    out.first.push_back(static_cast<float>(first) / static_cast<float>(length));
  }
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
    TextWords text(index.n_words);
    std::vector<int32_t> candidates;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      NameMatches &part = parts[chunk];
      for (int64_t row = chunk * kChunk; row < std::min(texts.n_rows, (chunk + 1) * kChunk); ++row) {
        const int32_t *first = texts.words + texts.indptr[row], *last = texts.words + texts.indptr[row + 1];
        text.read(first, last);
        match_text(index, text, std::max<int64_t>(1, last - first), candidates, part);
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
