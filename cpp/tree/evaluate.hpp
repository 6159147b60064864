// Margins of one node for one row: the inner loop of every search.
#pragma once

#include <span>

#include "tree/search.hpp"

namespace tagwood {

// Rows made ready for look-ups: features hashed once for all nodes, and roughly in the order of their hashes, so that
// look-ups walk through a block's tables from front to back.
class HashedRows {
public:
  void assign(const CsrView &x, int64_t begin, int64_t end, int feature_bits);
  std::span<const uint32_t> hashes(int64_t i) const { return {hashes_.data() + ptr_[i], size(i)}; }
  std::span<const float> values(int64_t i) const { return {values_.data() + ptr_[i], size(i)}; }

private:
  size_t size(int64_t i) const { return static_cast<size_t>(ptr_[i + 1] - ptr_[i]); }
  std::vector<int64_t> ptr_;
  std::vector<uint32_t> hashes_;
  std::vector<float> values_;
};

// Writes the margins of all outputs of `node` for one row to `out`.
void evaluate_node(const ModelView &model, int32_t node, std::span<const uint32_t> hashes,
                   std::span<const float> values, float *out);

// Writes the places of the scores that are at least `least`; returns how many.
int select_scores(const float *scores, int n, float least, int32_t *places);

// log p of each margin, plus `base`, in place.
void apply_link(const Link &link, float *margins, int n, float base);

} // namespace tagwood
