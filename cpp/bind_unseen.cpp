// Border to Python of unseen.hpp.
#include "binding.hpp"
#include "unseen.hpp"

namespace tagwood {

namespace {

Out<int32_t> py_match_unseen(In<int64_t> x_indptr, In<int32_t> x_indices, In<float> x_data, int64_t n_features,
                             In<int64_t> node_ptr, In<int32_t> rows, In<float> positive_weights, In<float> row_weights,
                             In<int32_t> child_ptr, In<uint8_t> second_half, int width, int followed, int link_power,
                             int loss, double cost, double bias, double tolerance, int max_sweeps, uint64_t seed,
                             int threads) {
  const CsrView x = view(x_indptr, x_indices, x_data, n_features);
  const int64_t n_nodes = static_cast<int64_t>(child_ptr.shape(0)) - 1;
  if (static_cast<int64_t>(node_ptr.shape(0)) != n_nodes + 1 || static_cast<int64_t>(second_half.shape(0)) != x.n_rows)
    throw nb::value_error("match_unseen: nodes, rows and halves do not fit together");
  Filled<int32_t> leaves(x.n_rows * width);
  {
    nb::gil_scoped_release release;
    const std::vector<int64_t> output_ptr(child_ptr.data(), child_ptr.data() + n_nodes + 1);
    std::vector<int64_t> seeds(n_nodes);
    for (int64_t node = 0; node < n_nodes; ++node)
      seeds[node] = node;
    // A node's rows are the positives of its parent's output for it.
    const TrainTasks tasks{node_ptr.data(),
                           node_ptr.data() + 1,
                           rows.data(),
                           output_ptr.data(),
                           node_ptr.data(),
                           node_ptr.data() + 1,
                           rows.data(),
                           positive_weights.size() ? positive_weights.data() : nullptr,
                           row_weights.size() ? row_weights.data() : nullptr,
                           seeds.data(),
                           n_nodes};
    TrainOptions training;
    training.loss = static_cast<Loss>(loss);
    training.cost = cost;
    training.bias = bias;
    training.tolerance = tolerance;
    training.max_sweeps = max_sweeps;
    training.seed = seed;
    training.threads = threads;
    match_unseen(x, tasks, child_ptr.data(), training, {second_half.data(), width, followed, {link_power}},
                 leaves.data());
  }
  return leaves.give();
}

} // namespace

void bind_unseen(nb::module_ &m) {
  using nb::arg;
  m.def("match_unseen", &py_match_unseen, arg("x_indptr").noconvert(), arg("x_indices").noconvert(),
        arg("x_data").noconvert(), arg("n_features"), arg("node_ptr").noconvert(), arg("rows").noconvert(),
        arg("positive_weights").noconvert(), arg("row_weights").noconvert(), arg("child_ptr").noconvert(),
        arg("second_half").noconvert(), arg("width"), arg("followed"), arg("link_power"), arg("loss"), arg("cost"),
        arg("bias"), arg("tolerance"), arg("max_sweeps"), arg("seed"), arg("threads"));
}

} // namespace tagwood
