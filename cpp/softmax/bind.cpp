// Python bindings of the kernels in softmax/.
#include "core/binding.hpp"
#include "softmax/softmax.hpp"

namespace tagwood {

namespace {

using InOut = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void py_softmax_epoch(InOut inputs, InOut outputs, int64_t dimension, In<int64_t> x_indptr, In<int32_t> x_indices,
                      In<float> x_data, In<int64_t> label_indptr, In<int32_t> labels, In<int64_t> path_ptr,
                      In<int32_t> path_steps, In<int32_t> order, float first_rate, float last_rate, int threads) {
  nb::gil_scoped_release release;
  const Embeddings<float> model{inputs.data(), outputs.data(), size_of(inputs) / dimension,
                                size_of(outputs) / dimension, dimension};
  const CsrView x = view(x_indptr, x_indices, x_data, model.n_features);
  const CsrView y{label_indptr.data(), labels.data(), nullptr, size_of(label_indptr) - 1, size_of(path_ptr) - 1};
  softmax_epoch(x, y, {path_ptr.data(), path_steps.data()}, order.data(), size_of(order),
                {first_rate, last_rate, threads}, model);
}

// The arrays of a trained model, in the order of `tagwood.models.softmax_tree.weights.SoftmaxArrays`.
using ModelArrays = std::tuple<In<float>, In<float>, In<int32_t>, In<int32_t>, In<int32_t>, In<int32_t>, In<int32_t>>;

struct Model {
  Embeddings<const float> embeddings;
  SoftmaxTree tree;
  const int32_t *parent;
};

Model model_of(const ModelArrays &arrays, int64_t dimension) {
  const auto &[inputs, outputs, parent, child_ptr, label_ptr, labels, decision] = arrays;
  return {{inputs.data(), outputs.data(), size_of(inputs) / dimension, size_of(outputs) / dimension, dimension},
          {child_ptr.data(), label_ptr.data(), labels.data(), decision.data(), size_of(decision), size_of(labels)},
          parent.data()};
}

std::tuple<Out<int32_t>, Out<float>, Out<int32_t>, Out<int32_t>>
py_softmax_search(const ModelArrays &arrays, int64_t dimension, In<int64_t> x_indptr, In<int32_t> x_indices,
                  In<float> x_data, int64_t k, In<uint8_t> node_allowed, int threads) {
  const Model model = model_of(arrays, dimension);
  const CsrView x = view(x_indptr, x_indices, x_data, model.embeddings.n_features);
  Filled<int32_t> labels(x.n_rows * k), found(x.n_rows), evaluated(x.n_rows);
  Filled<float> scores(x.n_rows * k);
  {
    nb::gil_scoped_release release;
    softmax_search(x, model.embeddings, model.tree, k, size_of(node_allowed) ? node_allowed.data() : nullptr, threads,
                   {labels.data(), scores.data(), found.data(), evaluated.data()});
  }
  return {labels.give(), scores.give(), found.give(), evaluated.give()};
}

Out<float> py_softmax_scores(const ModelArrays &arrays, int64_t dimension, In<int64_t> x_indptr, In<int32_t> x_indices,
                             In<float> x_data, In<int64_t> leaf_indptr, In<int32_t> leaves, int threads) {
  const Model model = model_of(arrays, dimension);
  Filled<float> scores(leaves.shape(0));
  {
    nb::gil_scoped_release release;
    const CsrView x = view(x_indptr, x_indices, x_data, model.embeddings.n_features);
    const CsrView wanted{leaf_indptr.data(), leaves.data(), nullptr, x.n_rows, model.tree.n_nodes};
    softmax_scores(x, model.embeddings, model.tree, model.parent, wanted, threads, scores.data());
  }
  return scores.give();
}

} // namespace

void bind_softmax(nb::module_ &m) {
  using nb::arg;
  m.def("softmax_epoch", &py_softmax_epoch, "One epoch of training in place; several threads update without locks.",
        arg("inputs").noconvert(), arg("outputs").noconvert(), arg("dimension"), arg("x_indptr").noconvert(),
        arg("x_indices").noconvert(), arg("x_data").noconvert(), arg("label_indptr").noconvert(),
        arg("labels").noconvert(), arg("path_ptr").noconvert(), arg("path_steps").noconvert(), arg("order").noconvert(),
        arg("first_rate"), arg("last_rate"), arg("threads"));
  m.def("softmax_search", &py_softmax_search,
        "Most probable k labels of each row: labels, probabilities, number found, decisions evaluated.",
        arg("model").noconvert(), arg("dimension"), arg("x_indptr").noconvert(), arg("x_indices").noconvert(),
        arg("x_data").noconvert(), arg("k"), arg("node_allowed").noconvert(), arg("threads"));
  m.def("softmax_scores", &py_softmax_scores, "Probabilities of given leaves of each row.", arg("model").noconvert(),
        arg("dimension"), arg("x_indptr").noconvert(), arg("x_indices").noconvert(), arg("x_data").noconvert(),
        arg("leaf_indptr").noconvert(), arg("leaves").noconvert(), arg("threads"));
}

} // namespace tagwood
