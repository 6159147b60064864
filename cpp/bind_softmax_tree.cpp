// Border to Python of softmax_tree.hpp and text_bags.hpp.
#include "binding.hpp"
#include "softmax_tree.hpp"
#include "text_bags.hpp"

using namespace tagwood;

namespace {

using InOut = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Array> int64_t size_of(const Array &array) { return static_cast<int64_t>(array.shape(0)); }

std::tuple<Out<int64_t>, Out<int32_t>, Out<float>>
py_bag_rows(In<uint8_t> bytes, In<int64_t> offsets, In<uint8_t> classes, In<uint32_t> folds, In<uint64_t> slots,
            int64_t n_words, In<int32_t> buckets, int longest, int64_t n_features, bool counts_unknown, int threads) {
  BagRows rows;
  {
    nb::gil_scoped_release release;
    const TextView texts{bytes.data(), offsets.data(), size_of(offsets) - 1};
    const CharTables tables{classes.data(), size_of(classes), folds.data(), size_of(folds)};
    const int bits = size_of(buckets) ? std::bit_width(static_cast<uint64_t>(size_of(buckets))) - 1 : 0;
    const VocabularyView words(slots.data(), size_of(slots), n_words);
    rows = bag_rows(texts, tables, {words, buckets.data(), bits, longest, n_features, counts_unknown}, threads);
  }
  return {own(std::move(rows.indptr)), own(std::move(rows.indices)), own(std::move(rows.data))};
}

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

namespace tagwood {

void bind_softmax_tree(nb::module_ &m) {
  using nb::arg;
  m.def("bag_rows", &py_bag_rows, arg("text").noconvert(), arg("offsets").noconvert(), arg("classes").noconvert(),
        arg("folds").noconvert(), arg("slots").noconvert(), arg("n_words"), arg("buckets").noconvert(), arg("longest"),
        arg("n_features"), arg("counts_unknown"), arg("threads"));
  m.def("softmax_epoch", &py_softmax_epoch, arg("inputs").noconvert(), arg("outputs").noconvert(), arg("dimension"),
        arg("x_indptr").noconvert(), arg("x_indices").noconvert(), arg("x_data").noconvert(),
        arg("label_indptr").noconvert(), arg("labels").noconvert(), arg("path_ptr").noconvert(),
        arg("path_steps").noconvert(), arg("order").noconvert(), arg("first_rate"), arg("last_rate"), arg("threads"));
  m.def("softmax_search", &py_softmax_search, arg("model").noconvert(), arg("dimension"), arg("x_indptr").noconvert(),
        arg("x_indices").noconvert(), arg("x_data").noconvert(), arg("k"), arg("node_allowed").noconvert(),
        arg("threads"));
  m.def("softmax_scores", &py_softmax_scores, arg("model").noconvert(), arg("dimension"), arg("x_indptr").noconvert(),
        arg("x_indices").noconvert(), arg("x_data").noconvert(), arg("leaf_indptr").noconvert(),
        arg("leaves").noconvert(), arg("threads"));
}

} // namespace tagwood
