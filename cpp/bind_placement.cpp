// Border to Python of placement.hpp.
#include "binding.hpp"
#include "placement.hpp"

#include <algorithm>

using namespace tagwood;

namespace {

std::tuple<Out<int32_t>, Out<int32_t>> py_place_labels(In<int64_t> label_ptr, In<int32_t> label_rows,
                                                       In<int32_t> first_leaf, In<int32_t> matched, int64_t n_places,
                                                       int64_t width, int64_t n_nodes, bool brings_all, double price,
                                                       double growth, double most_work, int64_t least_gain,
                                                       int64_t max_copies) {
  const auto n_labels = static_cast<int64_t>(first_leaf.shape(0));
  const auto n_rows = n_places > 0 ? static_cast<int64_t>(matched.shape(0)) / n_places : 0;
  const bool fits = width > 0 && width <= n_places && static_cast<int64_t>(matched.shape(0)) == n_rows * n_places &&
                    static_cast<int64_t>(label_ptr.shape(0)) == n_labels + 1 && label_ptr.data()[0] == 0 &&
                    std::is_sorted(label_ptr.data(), label_ptr.data() + n_labels + 1) &&
                    label_ptr.data()[n_labels] == static_cast<int64_t>(label_rows.shape(0));
  if (!fits || !all_within(label_rows, 0, n_rows) || !all_within(first_leaf, 0, n_nodes) ||
      !all_within(matched, -1, n_nodes))
    throw nb::value_error("place_labels: labels, rows and leaves do not fit together");
  const PlacementTask task{
      label_ptr.data(), label_rows.data(), n_labels, first_leaf.data(), matched.data(), n_rows, n_places, width,
      n_nodes};
  Placement placement;
  {
    nb::gil_scoped_release release;
    placement = place_labels(task, {price, growth, most_work, least_gain, max_copies, brings_all});
  }
  return {own(std::move(placement.labels)), own(std::move(placement.leaves))};
}

} // namespace

namespace tagwood {

void bind_placement(nb::module_ &m) {
  using nb::arg;
  m.def("place_labels", &py_place_labels, arg("label_ptr").noconvert(), arg("label_rows").noconvert(),
        arg("first_leaf").noconvert(), arg("matched").noconvert(), arg("n_places"), arg("width"), arg("n_nodes"),
        arg("brings_all"), arg("price"), arg("growth"), arg("most_work"), arg("least_gain"), arg("max_copies"));
}

} // namespace tagwood
