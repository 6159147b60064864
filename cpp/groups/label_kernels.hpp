// The loops over features behind LabelSolver.
#pragma once

#include <cstdint>

namespace tagwood {

// One feature of e and g, side by side because they are always read together.
struct Pair {
  float e, g;
};

struct Products {
  float with_e, with_g;
};

// The products of a row with e and g.
Products products(const int32_t *indices, const float *data, int64_t size, const Pair *pairs);

// The squared length of sum - n_rows * background.
double squared_length(const double *sum, const float *background, double n_rows, int64_t size);

struct Turn {
  double ee, eg, risen, fallen; // the squared sums of what g gained and lost
};

// e <- keep * e + add * g, g <- scale * (sum - n_rows * background).
Turn turn(Pair *pairs, const double *sum, const float *background, int64_t size, float keep, float add, double n_rows,
          double scale);

} // namespace tagwood
