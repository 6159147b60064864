// Where a label embedding e is, seen from earlier points of its way: the numbers behind "this row need not be looked
// at".
//
// e moves by e <- normalise(e + step * g), where g, of norm 1, changes only when a group changes its pick. A leg is a
// stretch of steps with the same g. Since leg l began, e has become keep * e_l + add * g_l + rest. What a row had as
// products with e_l and g_l says how close it is now: exactly in the same leg, in later ones up to its product with
// the rest, which is between -fall and rise for a row of norm 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tagwood {

// How much the product of a row of norm 1 with some vector can be, up and down.
struct Reach {
  double rise, fall;
};

struct Leg {
  double keep, add;
  Reach rest;
  Reach turned; // of g - g_l
};

class EmbeddingPath {
public:
  // Leg 0 is that of rows never looked at; leg 1 begins at the first e, without a direction.
  void restart() {
    constexpr double far = std::numeric_limits<double>::infinity();
    legs_.assign(1, {0, 0, {far, far}, {0, 0}});
    begin_leg({0, 0}, 1, 0, false);
  }

  // A new direction g, `turned` away from the last one; `ee` and `eg` are the products of e with e and g.
  void begin_leg(Reach turned, double ee, double eg, bool has_direction) {
    for (Leg &leg : legs_) {
      leg.turned.rise += turned.rise;
      leg.turned.fall += turned.fall;
    }
    legs_.push_back({1, 0, {0, 0}, {0, 0}});
    ee_ = ee;
    eg_ = eg;
    has_direction_ = has_direction;
  }

  // e <- normalise(e + step * g); without a direction, and where e would vanish, nothing moves.
  void advance(double step) {
    const double norm = std::sqrt(std::max(0.0, ee_ + 2 * step * eg_ + step * step));
    if (!has_direction_ || !(norm > kVanished))
      return;
    for (Leg &leg : legs_) {
      leg.keep /= norm;
      leg.add = (leg.add + step) / norm;
      leg.rest.rise = (leg.rest.rise + step * leg.turned.rise) / norm;
      leg.rest.fall = (leg.rest.fall + step * leg.turned.fall) / norm;
    }
    eg_ = (eg_ + step) / norm;
    ee_ = 1;
  }

  const Leg &operator[](int32_t leg) const { return legs_[static_cast<size_t>(leg)]; }
  int32_t current() const { return static_cast<int32_t>(legs_.size()) - 1; }

private:
  static constexpr double kVanished = 1e-5;
  std::vector<Leg> legs_;
  double ee_ = 0, eg_ = 0;
  bool has_direction_ = false;
};

} // namespace tagwood
