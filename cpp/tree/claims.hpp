// Who gets a place: labels claim leaves, and both have limits.
#pragma once

#include <cstdint>
#include <vector>

namespace tagwood {

// Claims in the order in which they are served, each of a label on a leaf.
struct Claims {
  const int32_t *labels;
  const int32_t *leaves;
  int64_t n;
};

// Says for each claim whether it is served: a label gets at most `copies` leaves, a leaf at most room[leaf] labels.
void serve_claims(const Claims &claims, int32_t copies, int64_t n_labels, std::vector<int64_t> room, uint8_t *served);

} // namespace tagwood
