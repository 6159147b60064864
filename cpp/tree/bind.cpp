// Python bindings of the kernels in tree/.
#include <algorithm>
#include <stdexcept>

#include "core/binding.hpp"
#include "tree/placement.hpp"
#include "tree/search.hpp"
#include "tree/split.hpp"
#include "tree/train.hpp"

namespace tagwood {

namespace {

using AnyWeights = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ArrayTuple = nb::typed<nb::tuple, nb::any, nb::ellipsis>;

template <class T> std::vector<T> join(std::vector<TrainedBlock> &blocks, std::vector<T> PackedBlock::*member) {
  size_t total = 0;
  for (const auto &block : blocks)
    total += (block.packed.*member).size();
  std::vector<T> all;
  all.reserve(total);
  for (auto &block : blocks) {
    auto &part = block.packed.*member;
    all.insert(all.end(), part.begin(), part.end());
    std::vector<T>().swap(part);
  }
  return all;
}

std::tuple<Out<int32_t>, Out<int64_t>, Out<int64_t>, Out<int32_t>>
py_split_labels(In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t n_features, In<double> frequency,
                In<double> context_frequency, double lam, double gamma, bool direct, int64_t max_leaf_size,
                int max_iterations, double tolerance, uint64_t seed, int threads) {
  const CsrView v = view(indptr, indices, data, n_features);
  const SplitOptions options{lam, gamma, direct, max_leaf_size, max_iterations, tolerance, seed, threads};
  SplitTree tree;
  {
    nb::gil_scoped_release release;
    tree = split_labels(v, frequency.data(), context_frequency.data(), options);
  }
  return {own(std::move(tree.order)), own(std::move(tree.begin)), own(std::move(tree.end)), own(std::move(tree.left))};
}

std::tuple<Out<int64_t>, Out<int32_t>, Out<float>> py_node_rows(In<int64_t> indptr, In<int32_t> rows, In<float> weights,
                                                                int64_t n_rows, In<int32_t> parent,
                                                                In<int32_t> label_ptr, In<int32_t> labels,
                                                                int threads) {
  const CsrView label_rows = view(indptr, rows, weights, n_rows);
  NodeRows out;
  {
    nb::gil_scoped_release release;
    out = node_rows(label_rows, parent.data(), label_ptr.data(), labels.data(), static_cast<int32_t>(parent.shape(0)),
                    n_rows, threads);
  }
  return {own(std::move(out.ptr)), own(std::move(out.rows)), own(std::move(out.weights))};
}

// bucket sizes, buckets, slot sizes, remainder sizes, remainders, counts, entry sizes, columns, weights, scales,
// biases, visits
using TrainedOut = std::tuple<Out<int64_t>, Out<uint32_t>, Out<int64_t>, Out<int64_t>, Out<uint8_t>, Out<uint8_t>,
                              Out<int64_t>, Out<uint8_t>, Out<uint8_t>, Out<float>, Out<float>, Out<int64_t>>;

// The arrays of blocks, which are emptied.
TrainedOut give_blocks(std::vector<TrainedBlock> &blocks) {
  std::vector<int64_t> bucket_sizes, slot_sizes, remainder_sizes, entry_sizes, visits;
  std::vector<uint32_t> buckets;
  std::vector<uint8_t> remainders, counts, columns, weights;
  std::vector<float> scales, biases;
  {
    nb::gil_scoped_release release;
    for (auto &block : blocks) {
      bucket_sizes.push_back(static_cast<int64_t>(block.packed.buckets.size() / 2));
      slot_sizes.push_back(static_cast<int64_t>(block.packed.counts.size()));
      remainder_sizes.push_back(static_cast<int64_t>(block.packed.remainders.size()));
      entry_sizes.push_back(static_cast<int64_t>(block.packed.columns.size()));
      scales.push_back(block.packed.scale);
      biases.insert(biases.end(), block.bias.begin(), block.bias.end());
      visits.push_back(block.visits);
    }
    buckets = join(blocks, &PackedBlock::buckets);
    remainders = join(blocks, &PackedBlock::remainders);
    counts = join(blocks, &PackedBlock::counts);
    columns = join(blocks, &PackedBlock::columns);
    weights = join(blocks, &PackedBlock::weights);
  }
  return {own(std::move(bucket_sizes)),    own(std::move(buckets)),    own(std::move(slot_sizes)),
          own(std::move(remainder_sizes)), own(std::move(remainders)), own(std::move(counts)),
          own(std::move(entry_sizes)),     own(std::move(columns)),    own(std::move(weights)),
          own(std::move(scales)),          own(std::move(biases)),     own(std::move(visits))};
}

// What `start` of train_blocks holds: ptr, features, columns, values, biases; or nothing.
struct StartArrays {
  In<int64_t> ptr;
  In<int32_t> features, columns;
  In<float> values, bias;

  explicit StartArrays(const nb::tuple &t)
      : ptr(nb::cast<In<int64_t>>(t[0])), features(nb::cast<In<int32_t>>(t[1])), columns(nb::cast<In<int32_t>>(t[2])),
        values(nb::cast<In<float>>(t[3])), bias(nb::cast<In<float>>(t[4])) {}

  StartWeights view(const TrainTasks &tasks, int64_t n_features) const {
    const int64_t n_entries = size_of(features), n_blocks = tasks.n_blocks;
    bool fits = size_of(ptr) == n_blocks + 1 && ptr.data()[0] == 0 &&
                std::is_sorted(ptr.data(), ptr.data() + n_blocks + 1) && ptr.data()[n_blocks] == n_entries &&
                size_of(columns) == n_entries && size_of(values) == n_entries &&
                size_of(bias) == tasks.output_ptr[n_blocks] && all_within(features, 0, n_features);
    for (int64_t b = 0; fits && b < n_blocks; ++b)
      for (int64_t i = ptr.data()[b]; fits && i < ptr.data()[b + 1]; ++i)
        fits = columns.data()[i] >= 0 && columns.data()[i] < tasks.output_ptr[b + 1] - tasks.output_ptr[b];
    if (!fits)
      throw nb::value_error("train_blocks: the arrays of start are inconsistent");
    return {ptr.data(), features.data(), columns.data(), values.data(), bias.data()};
  }
};

// What `guests` of train_blocks holds: guest, negative_begin, negative_end, negatives; or nothing.
struct GuestArrays {
  In<uint8_t> guest;
  In<int64_t> begin, end;
  In<int32_t> negatives;

  explicit GuestArrays(const nb::tuple &t)
      : guest(nb::cast<In<uint8_t>>(t[0])), begin(nb::cast<In<int64_t>>(t[1])), end(nb::cast<In<int64_t>>(t[2])),
        negatives(nb::cast<In<int32_t>>(t[3])) {}

  GuestRows view(const TrainTasks &tasks, int64_t n_places, int64_t n_rows) const {
    const int64_t n_outputs = tasks.output_ptr[tasks.n_blocks], n_negatives = size_of(negatives);
    bool fits = size_of(guest) == n_places && size_of(begin) == n_outputs && size_of(end) == n_outputs &&
                all_within(negatives, 0, n_rows);
    for (int64_t o = 0; fits && o < n_outputs; ++o)
      fits = begin.data()[o] >= 0 && begin.data()[o] <= end.data()[o] && end.data()[o] <= n_negatives;
    if (!fits)
      throw nb::value_error("train_blocks: the arrays of guests are inconsistent");
    return {guest.data(), begin.data(), end.data(), negatives.data()};
  }
};

TrainedOut py_train_blocks(In<int64_t> x_indptr, In<int32_t> x_indices, In<float> x_data, int64_t n_features,
                           In<int64_t> row_begin, In<int64_t> row_end, In<int32_t> rows, In<int64_t> output_ptr,
                           In<int64_t> positive_begin, In<int64_t> positive_end, In<int32_t> positives,
                           In<float> positive_weights, In<float> row_weights, In<int64_t> seeds, int loss, double cost,
                           double bias, double tolerance, int max_sweeps, double threshold, int weight_type,
                           uint64_t seed, int threads, int64_t chunk_entries, bool mapped, const ArrayTuple &start,
                           const ArrayTuple &guests) {
  const CsrView x = view(x_indptr, x_indices, x_data, n_features);
  TrainTasks tasks{row_begin.data(),
                   row_end.data(),
                   rows.data(),
                   output_ptr.data(),
                   positive_begin.data(),
                   positive_end.data(),
                   positives.data(),
                   positive_weights.size() ? positive_weights.data() : nullptr,
                   row_weights.size() ? row_weights.data() : nullptr,
                   seeds.data(),
                   static_cast<int64_t>(seeds.shape(0))};
  if (start.size() > 0)
    tasks.start = StartArrays(start).view(tasks, n_features);
  if (guests.size() > 0)
    tasks.guests = GuestArrays(guests).view(tasks, size_of(rows), x.n_rows);
  const TrainOptions options{static_cast<Loss>(loss),
                             cost,
                             bias,
                             tolerance,
                             max_sweeps,
                             threshold,
                             static_cast<WeightType>(weight_type),
                             seed,
                             threads,
                             chunk_entries,
                             mapped};
  std::vector<TrainedBlock> blocks;
  {
    nb::gil_scoped_release release;
    blocks = train_blocks(x, tasks, options);
  }
  return give_blocks(blocks);
}

// The arrays of a model in the order of `tagwood.models.linear_tree.weights.ModelArrays`, held while a search runs.
struct ModelArrays {
  In<int32_t> child_ptr, label_ptr, labels;
  In<int64_t> block_ptr, bucket_ptr;
  In<uint32_t> buckets;
  In<int64_t> slot_ptr, remainder_ptr;
  In<uint8_t> remainders, counts;
  In<int64_t> entry_ptr;
  In<uint8_t> columns;
  AnyWeights weights;
  In<float> scales, bias;

  explicit ModelArrays(const nb::tuple &t)
      : child_ptr(nb::cast<In<int32_t>>(t[0])), label_ptr(nb::cast<In<int32_t>>(t[1])),
        labels(nb::cast<In<int32_t>>(t[2])), block_ptr(nb::cast<In<int64_t>>(t[3])),
        bucket_ptr(nb::cast<In<int64_t>>(t[4])), buckets(nb::cast<In<uint32_t>>(t[5])),
        slot_ptr(nb::cast<In<int64_t>>(t[6])), remainder_ptr(nb::cast<In<int64_t>>(t[7])),
        remainders(nb::cast<In<uint8_t>>(t[8])), counts(nb::cast<In<uint8_t>>(t[9])),
        entry_ptr(nb::cast<In<int64_t>>(t[10])), columns(nb::cast<In<uint8_t>>(t[11])),
        weights(nb::cast<AnyWeights>(t[12])), scales(nb::cast<In<float>>(t[13])), bias(nb::cast<In<float>>(t[14])) {}

  ModelView view(int n_labels, int max_outputs, int link_power, int64_t n_features) const {
    const auto bits = weights.dtype().bits;
    const WeightType type = bits == 8 ? WeightType::int8 : bits == 16 ? WeightType::float16 : WeightType::float32;
    ModelView model;
    model.tree = {child_ptr.data(),
                  label_ptr.data(),
                  labels.data(),
                  block_ptr.data(),
                  static_cast<int32_t>(child_ptr.shape(0)) - 1,
                  n_labels,
                  max_outputs};
    model.blocks = {bucket_ptr.data(),
                    buckets.data(),
                    slot_ptr.data(),
                    remainder_ptr.data(),
                    remainders.data(),
                    counts.data(),
                    entry_ptr.data(),
                    columns.data(),
                    weights.data(),
                    scales.data(),
                    type,
                    feature_bits(n_features)};
    model.bias = bias.data();
    model.link = {link_power};
    return model;
  }
};

std::tuple<Out<int32_t>, Out<float>, Out<int32_t>, Out<int32_t>, Out<float>, Out<int64_t>>
py_search(const ArrayTuple &arrays, int n_labels, int max_outputs, int link_power, In<int64_t> x_indptr,
          In<int32_t> x_indices, In<float> x_data, int64_t n_features, bool exact, int k, int width, int64_t max_nodes,
          int copies, In<uint8_t> label_allowed, In<uint8_t> node_allowed, int threads) {
  const ModelArrays held(arrays);
  const ModelView model = held.view(n_labels, max_outputs, link_power, n_features);
  const CsrView x = view(x_indptr, x_indices, x_data, n_features);
  SearchOptions options;
  options.k = k;
  options.width = width;
  options.max_nodes = max_nodes;
  options.has_copies = copies != 0;
  options.mean_copies = copies == 1;
  options.label_allowed = label_allowed.size() ? label_allowed.data() : nullptr;
  options.node_allowed = node_allowed.size() ? node_allowed.data() : nullptr;
  options.threads = threads;
  Filled<int32_t> labels(x.n_rows * k), found(x.n_rows), evaluated(x.n_rows);
  Filled<float> scores(x.n_rows * k), bound(x.n_rows);
  Filled<int64_t> outputs(x.n_rows);
  {
    nb::gil_scoped_release release;
    const SearchOutput out{labels.data(), scores.data(), found.data(), evaluated.data(), outputs.data(), bound.data()};
    exact ? exact_search(model, x, options, out) : beam_search(model, x, options, out);
  }
  return {labels.give(), scores.give(), found.give(), evaluated.give(), bound.give(), outputs.give()};
}

std::tuple<Out<int32_t>, Out<float>> py_beam_leaves(const ArrayTuple &arrays, int n_labels, int max_outputs,
                                                    int link_power, In<int64_t> x_indptr, In<int32_t> x_indices,
                                                    In<float> x_data, int64_t n_features, int width, int threads) {
  const ModelArrays held(arrays);
  const ModelView model = held.view(n_labels, max_outputs, link_power, n_features);
  const CsrView x = view(x_indptr, x_indices, x_data, n_features);
  SearchOptions options;
  options.width = width;
  options.threads = threads;
  Filled<int32_t> leaves(x.n_rows * width);
  Filled<float> scores(x.n_rows * width);
  {
    nb::gil_scoped_release release;
    beam_leaves(model, x, options, leaves.data(), scores.data());
  }
  return {leaves.give(), scores.give()};
}

Out<float> py_margins(const ArrayTuple &arrays, int n_labels, int max_outputs, In<int64_t> x_indptr,
                      In<int32_t> x_indices, In<float> x_data, int64_t n_features, In<int64_t> ptr, In<int32_t> nodes,
                      In<int32_t> outputs, int threads) {
  const ModelArrays held(arrays);
  const ModelView model = held.view(n_labels, max_outputs, 0, n_features);
  const CsrView x = view(x_indptr, x_indices, x_data, n_features);
  Filled<float> out(nodes.shape(0));
  {
    nb::gil_scoped_release release;
    margins(model, x, ptr.data(), nodes.data(), outputs.data(), threads, out.data());
  }
  return out.give();
}

std::tuple<Out<float>, Out<float>> py_open_nodes(const ArrayTuple &arrays, int n_labels, int max_outputs,
                                                 int link_power, In<int64_t> x_indptr, In<int32_t> x_indices,
                                                 In<float> x_data, int64_t n_features, In<int64_t> ptr,
                                                 In<int32_t> nodes, In<float> scores, In<int64_t> out_ptr,
                                                 int threads) {
  const ModelArrays held(arrays);
  const ModelView model = held.view(n_labels, max_outputs, link_power, n_features);
  const CsrView x = view(x_indptr, x_indices, x_data, n_features);
  const int64_t size = out_ptr.data()[nodes.shape(0)];
  Filled<float> logs(size), probabilities(size);
  {
    nb::gil_scoped_release release;
    open_nodes(model, x, ptr.data(), nodes.data(), scores.data(), out_ptr.data(), threads, logs.data(),
               probabilities.data());
  }
  return {logs.give(), probabilities.give()};
}

Out<int32_t> py_match_unseen(In<int64_t> x_indptr, In<int32_t> x_indices, In<float> x_data, int64_t n_features,
                             In<int64_t> node_ptr, In<int32_t> rows, In<float> positive_weights, In<float> row_weights,
                             In<int32_t> child_ptr, In<uint8_t> second_half, int width, int followed, int link_power,
                             int loss, double cost, double bias, double tolerance, int max_sweeps, uint64_t seed,
                             int threads) {
  const CsrView x = view(x_indptr, x_indices, x_data, n_features);
  const int64_t n_nodes = static_cast<int64_t>(child_ptr.shape(0)) - 1;
  if (static_cast<int64_t>(node_ptr.shape(0)) != n_nodes + 1 || static_cast<int64_t>(second_half.shape(0)) != x.n_rows)
    throw nb::value_error(
        "match_unseen: node_ptr needs one entry per node and one more, second_half one entry per row");
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
    throw nb::value_error("place_labels: label_ptr, label_rows, first_leaf and matched are inconsistent");
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

Out<uint8_t> py_accept_pairs(In<int32_t> labels, In<int32_t> leaves, int32_t copies, int64_t n_labels,
                             In<int64_t> capacity) {
  const int64_t n = static_cast<int64_t>(labels.shape(0)), n_leaves = static_cast<int64_t>(capacity.shape(0));
  if (static_cast<int64_t>(leaves.shape(0)) != n || !all_within(labels, 0, n_labels) ||
      !all_within(leaves, 0, n_leaves))
    throw nb::value_error("accept_pairs: labels and leaves must have the same length and be in range");
  Filled<uint8_t> accepted(n);
  {
    nb::gil_scoped_release release;
    accept_pairs({labels.data(), leaves.data(), n}, copies, n_labels, {capacity.data(), capacity.data() + n_leaves},
                 accepted.data());
  }
  return accepted.give();
}

} // namespace

void bind_tree(nb::module_ &m) {
  using nb::arg;
  m.def("split_labels", &py_split_labels,
        "Binary label tree by recursive splits: order, begin, end, left (see cpp/tree/split.hpp).",
        arg("indptr").noconvert(), arg("indices").noconvert(), arg("data").noconvert(), arg("n_features"),
        arg("frequency").noconvert(), arg("context_frequency").noconvert(), arg("lam"), arg("gamma"), arg("direct"),
        arg("max_leaf_size"), arg("max_iterations"), arg("tolerance"), arg("seed"), arg("threads"));
  m.def("node_rows", &py_node_rows,
        "Rows with a label below each node, rising, and their largest weights: ptr, rows, weights.",
        arg("indptr").noconvert(), arg("rows").noconvert(), arg("weights").noconvert(), arg("n_rows"),
        arg("parent").noconvert(), arg("label_ptr").noconvert(), arg("labels").noconvert(), arg("threads"));
  m.def("train_blocks", &py_train_blocks,
        "Train linear classifiers block by block; packed weights as described in cpp/tree/blocks.hpp.",
        arg("x_indptr").noconvert(), arg("x_indices").noconvert(), arg("x_data").noconvert(), arg("n_features"),
        arg("row_begin").noconvert(), arg("row_end").noconvert(), arg("rows").noconvert(),
        arg("output_ptr").noconvert(), arg("positive_begin").noconvert(), arg("positive_end").noconvert(),
        arg("positives").noconvert(), arg("positive_weights").noconvert(), arg("row_weights").noconvert(),
        arg("seeds").noconvert(), arg("loss"), arg("cost"), arg("bias"), arg("tolerance"), arg("max_sweeps"),
        arg("threshold"), arg("weight_type"), arg("seed"), arg("threads"), arg("chunk_entries") = 0,
        arg("mapped") = false, arg("start") = nb::tuple(), arg("guests") = nb::tuple());
  m.def("search", &py_search,
        "Best k labels of each row: labels, scores, number found, nodes evaluated, bound on missed labels, outputs of\n"
        "these nodes.",
        arg("model"), arg("n_labels"), arg("max_outputs"), arg("link_power"), arg("x_indptr").noconvert(),
        arg("x_indices").noconvert(), arg("x_data").noconvert(), arg("n_features"), arg("exact"), arg("k"),
        arg("width"), arg("max_nodes"), arg("copies"), arg("label_allowed").noconvert(),
        arg("node_allowed").noconvert(), arg("threads"));
  m.def("beam_leaves", &py_beam_leaves,
        "Leaves at the end of the beam and their path scores: `width` places per row, unused ones -1.", arg("model"),
        arg("n_labels"), arg("max_outputs"), arg("link_power"), arg("x_indptr").noconvert(),
        arg("x_indices").noconvert(), arg("x_data").noconvert(), arg("n_features"), arg("width"), arg("threads"));
  m.def("margins", &py_margins, "Margins of given outputs of given nodes for each row.", arg("model"), arg("n_labels"),
        arg("max_outputs"), arg("x_indptr").noconvert(), arg("x_indices").noconvert(), arg("x_data").noconvert(),
        arg("n_features"), arg("ptr").noconvert(), arg("nodes").noconvert(), arg("outputs").noconvert(),
        arg("threads"));
  m.def("open_nodes", &py_open_nodes, "Log scores and probabilities of all outputs of given nodes for each row.",
        arg("model"), arg("n_labels"), arg("max_outputs"), arg("link_power"), arg("x_indptr").noconvert(),
        arg("x_indices").noconvert(), arg("x_data").noconvert(), arg("n_features"), arg("ptr").noconvert(),
        arg("nodes").noconvert(), arg("scores").noconvert(), arg("out_ptr").noconvert(), arg("threads"));
  m.def("match_unseen", &py_match_unseen,
        "Leaves of each training row, found by classifiers trained on the other half of the rows.",
        arg("x_indptr").noconvert(), arg("x_indices").noconvert(), arg("x_data").noconvert(), arg("n_features"),
        arg("node_ptr").noconvert(), arg("rows").noconvert(), arg("positive_weights").noconvert(),
        arg("row_weights").noconvert(), arg("child_ptr").noconvert(), arg("second_half").noconvert(), arg("width"),
        arg("followed"), arg("link_power"), arg("loss"), arg("cost"), arg("bias"), arg("tolerance"), arg("max_sweeps"),
        arg("seed"), arg("threads"));
  m.def("place_labels", &py_place_labels,
        "Leaves of each label, chosen by reach per training work: labels and leaves, pair by pair.",
        arg("label_ptr").noconvert(), arg("label_rows").noconvert(), arg("first_leaf").noconvert(),
        arg("matched").noconvert(), arg("n_places"), arg("width"), arg("n_nodes"), arg("brings_all"), arg("price"),
        arg("growth"), arg("most_work"), arg("least_gain"), arg("max_copies"));
  m.def("accept_pairs", &py_accept_pairs,
        "Accept (label, leaf) pairs in order: a label gets at most `copies` leaves, a leaf its `capacity` of labels.",
        arg("labels").noconvert(), arg("leaves").noconvert(), arg("copies"), arg("n_labels"),
        arg("capacity").noconvert());
}

} // namespace tagwood
