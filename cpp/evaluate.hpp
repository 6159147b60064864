// Margins of one node for one row: the inner loop of every search.
#pragma once

#include <span>

#include "search.hpp"

namespace tagwood {

// Writes the margins of all outputs of `node` for the row (features, values) to `out`.
void evaluate_node(const ModelView &model, int32_t node, std::span<const int32_t> features,
                   std::span<const float> values, float *out);

// log p of each margin, plus `base`, in place.
void apply_link(const Link &link, float *margins, int n, float base);

} // namespace tagwood
