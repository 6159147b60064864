#include "text/count.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace tagwood {

namespace {

constexpr int64_t kRowsPerItem = 32;
constexpr int kPartBits = 6; // keys are shared out by their top bits, so that sorted parts make a sorted whole
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

// The features one thread met first itself, with their spellings.
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
  // A thread gets its rows in rising order, so it meets a feature first in its own first row; the smallest wins.
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
