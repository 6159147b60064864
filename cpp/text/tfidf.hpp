// TF-IDF rows from texts, and the table that finds a feature by its key.
#pragma once

#include <vector>

#include "text/ngrams.hpp"

namespace tagwood {

// Open addressing with at least as many free slots as features. A slot holds feature id + 1 in its low `id_bits` bits
// and the same bits of the key as they are above them; 0 is free. The search starts at the key's low bits, so slot
// number and slot content together check the whole key. The table is one plain array, ready to be memory-mapped.
struct VocabularyView {
  const uint64_t *slots;
  int64_t n_slots; // a power of two
  int64_t n_features;
  uint64_t id_mask;

  VocabularyView(const uint64_t *table, int64_t n_slots, int64_t n_features)
      : slots(table), n_slots(n_slots), n_features(n_features),
        id_mask((uint64_t{1} << std::bit_width(static_cast<uint64_t>(n_features))) - 1) {}

  void prefetch(uint64_t key) const { __builtin_prefetch(slots + (key & (n_slots - 1))); }

  // The feature of a key, or -1. A damaged table gives wrong features, never an endless search or a foreign read.
  int64_t find(uint64_t key) const {
    const uint64_t slot = slots[key & (n_slots - 1)];
    const bool other = ((slot ^ key) & ~id_mask) != 0;
    if (slot != 0 && other) [[unlikely]]
      return find_on(key);
    return other ? -1 : id_of(slot);
  }

private:
  int64_t id_of(uint64_t slot) const {
    const int64_t id = static_cast<int64_t>(slot & id_mask) - 1;
    return id < n_features ? id : -1;
  }
  int64_t find_on(uint64_t key) const {
    for (int64_t tries = 1; tries < n_slots; ++tries) {
      const uint64_t slot = slots[(key + tries) & (n_slots - 1)];
      if (slot == 0)
        return -1;
      if (((slot ^ key) & ~id_mask) == 0)
        return id_of(slot);
    }
    return -1;
  }
};

// The table of n_features different keys, feature i for keys[i].
std::vector<uint64_t> build_vocabulary(const uint64_t *keys, int64_t n_features);

struct Weighting {
  const float *idf; // (n_features,); features of idf 0 are left out
  int64_t n_features;
  bool sublinear; // 1 + ln(count) instead of the count
};

struct TextRows {
  std::vector<int64_t> indptr;
  std::vector<int32_t> indices;
  std::vector<float> data;
};

// Rows of norm 1 with rising columns. With ngrams.hash_bits the keys are the features and the vocabulary is not used.
TextRows tfidf_rows(const TextView &texts, const CharTables &tables, const Ngrams &ngrams,
                    const VocabularyView &vocabulary, const Weighting &weighting, int threads);

} // namespace tagwood
