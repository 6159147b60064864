#include "tree/claims.hpp"

namespace tagwood {

void serve_claims(const Claims &claims, int32_t copies, int64_t n_labels, std::vector<int64_t> room, uint8_t *served) {
  std::vector<int32_t> left(n_labels, copies);
  for (int64_t i = 0; i < claims.n; ++i) {
    int32_t &wanted = left[claims.labels[i]];
    int64_t &places = room[claims.leaves[i]];
    served[i] = wanted > 0 && places > 0;
    wanted -= served[i];
    places -= served[i];
  }
}

} // namespace tagwood
