// Python bindings of the kernels in candidates/: similar rows, names in texts, fusion of candidates.
#include <memory>

#include "candidates/boosted.hpp"
#include "candidates/context.hpp"
#include "candidates/gather.hpp"
#include "candidates/index.hpp"
#include "candidates/name_evidence.hpp"
#include "candidates/names.hpp"
#include "core/binding.hpp"

namespace tagwood {

namespace {

using Places = std::tuple<Out<int32_t>, Out<float>, Out<int32_t>>;
using IndexOut = std::tuple<Out<int64_t>, Out<int32_t>, Out<uint8_t>, Out<float>>;

const uint8_t *or_null(const In<uint8_t> &flags) { return flags.shape(0) ? flags.data() : nullptr; }

IndexOut py_build_index(In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t n_features) {
  const CsrView rows = view(indptr, indices, data, n_features);
  Filled<int64_t> feature_ptr(n_features + 1);
  Filled<int32_t> out_rows(indices.shape(0));
  Filled<uint8_t> codes(indices.shape(0));
  Filled<float> scale(n_features);
  {
    nb::gil_scoped_release release;
    int64_t *ptr = feature_ptr.data();
    std::fill(ptr, ptr + n_features + 1, 0);
    for (int64_t i = 0; i < size_of(indices); ++i)
      ++ptr[indices.data()[i] + 1];
    for (int64_t feature = 0; feature < n_features; ++feature)
      ptr[feature + 1] += ptr[feature];
    fill_index(rows, ptr, out_rows.data(), codes.data(), scale.data());
  }
  return {feature_ptr.give(), out_rows.give(), codes.give(), scale.give()};
}

Places py_nearest_rows(In<int64_t> feature_ptr, In<int32_t> rows, In<uint8_t> codes, In<float> scale, int64_t n_rows,
                       In<uint8_t> dead, In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t k,
                       float neglected, int threads) {
  const int64_t n_features = size_of(scale);
  if (k < 1 || !(neglected >= 0 && neglected < 1) || size_of(feature_ptr) != n_features + 1 ||
      (size_of(dead) && size_of(dead) != n_rows))
    throw nb::value_error("nearest_rows: the arrays do not fit together");
  const CsrView queries = view(indptr, indices, data, n_features);
  Filled<int32_t> out_rows(queries.n_rows * k), found(queries.n_rows);
  Filled<float> scores(queries.n_rows * k);
  {
    nb::gil_scoped_release release;
    nearest_rows({feature_ptr.data(), rows.data(), codes.data(), scale.data(), n_rows, n_features}, or_null(dead),
                 queries, k, neglected, threads, out_rows.data(), scores.data(), found.data());
  }
  return {out_rows.give(), scores.give(), found.give()};
}

Places py_vote_labels(In<int32_t> rows, In<float> weights, In<int32_t> found, In<int64_t> label_ptr, In<int32_t> labels,
                      In<uint8_t> blocked, int64_t k, int threads) {
  const int64_t n_queries = size_of(found);
  if (k < 1 || size_of(rows) != size_of(weights) || (n_queries && size_of(rows) % n_queries))
    throw nb::value_error("vote_labels: the arrays do not fit together");
  Filled<int32_t> out_labels(n_queries * k), out_found(n_queries);
  Filled<float> scores(n_queries * k);
  {
    nb::gil_scoped_release release;
    vote_labels({found.data(), static_cast<size_t>(n_queries)}, rows.data(), weights.data(),
                n_queries ? size_of(rows) / n_queries : 0, label_ptr.data(), labels.data(), or_null(blocked), k,
                threads, out_labels.data(), scores.data(), out_found.data());
  }
  return {out_labels.give(), scores.give(), out_found.give()};
}

WordsView words_of(const In<int64_t> &indptr, const In<int32_t> &words) {
  return {indptr.data(), words.data(), size_of(indptr) - 1};
}

std::tuple<Out<int64_t>, Out<int32_t>> py_prefix_words(In<int64_t> name_ptr, In<int32_t> name_words, In<float> weight,
                                                       float min_coverage) {
  if (!all_within(name_words, 0, size_of(weight)))
    throw nb::value_error("prefix_words: words of names must have a weight");
  std::vector<int64_t> ptr;
  std::vector<int32_t> by_word;
  {
    nb::gil_scoped_release release;
    prefix_words(words_of(name_ptr, name_words), weight.data(), size_of(weight), min_coverage, ptr, by_word);
  }
  return {own(std::move(ptr)), own(std::move(by_word))};
}

// text borders, names, coverage, count, phrases, first
using MatchesOut = std::tuple<Out<int64_t>, Out<int32_t>, Out<float>, Out<int32_t>, Out<int32_t>, Out<float>>;

MatchesOut py_match_names(In<int64_t> name_ptr, In<int32_t> name_words, In<float> weight, In<int64_t> word_ptr,
                          In<int32_t> by_word, float min_coverage, In<int64_t> indptr, In<int32_t> words, int threads) {
  if (size_of(word_ptr) != size_of(weight) + 1 || !all_within(words, INT32_MIN, size_of(weight)))
    throw nb::value_error("match_names: the arrays do not fit together");
  NameMatches found;
  {
    nb::gil_scoped_release release;
    const NamesView index{words_of(name_ptr, name_words), weight.data(), word_ptr.data(), by_word.data(), min_coverage};
    found = match_names(index, words_of(indptr, words), threads);
  }
  return {own(std::move(found.indptr)), own(std::move(found.names)),   own(std::move(found.coverage)),
          own(std::move(found.count)),  own(std::move(found.phrases)), own(std::move(found.first))};
}

// The arrays of a name index, of its labels, of two tables of postings, of texts and of a ranking.
std::tuple<Out<int64_t>, Out<int32_t>, Out<double>, Out<uint8_t>>
py_find_evidence(std::tuple<In<int64_t>, In<int32_t>, In<float>, In<int64_t>, In<int32_t>> index, float min_coverage,
                 In<int32_t> name_labels, In<int32_t> shared, int64_t n_labels,
                 std::tuple<In<int64_t>, In<int32_t>, In<float>> bags,
                 std::tuple<In<int64_t>, In<int32_t>, In<float>> related, std::tuple<double, double> least,
                 In<int64_t> indptr, In<int32_t> words, std::tuple<In<int64_t>, In<int32_t>, In<float>> ranking) {
  const auto &[name_ptr, name_words, weight, word_ptr, by_word] = index;
  const auto &[rank_ptr, labels, scores] = ranking;
  if (size_of(word_ptr) != size_of(weight) + 1 || size_of(std::get<0>(bags)) != size_of(weight) + 1 ||
      size_of(name_labels) != size_of(name_ptr) - 1 || size_of(shared) != size_of(name_labels) ||
      size_of(rank_ptr) != size_of(indptr) || size_of(labels) != size_of(scores) ||
      !all_within(words, INT32_MIN, size_of(weight)) || !all_within(labels, 0, size_of(std::get<0>(related)) - 1))
    throw nb::value_error("find_evidence: the arrays do not fit together");
  EvidenceFound found;
  {
    nb::gil_scoped_release release;
    const auto postings = [](const auto &arrays) {
      return PostingsView{std::get<0>(arrays).data(), std::get<1>(arrays).data(), std::get<2>(arrays).data()};
    };
    const NamesView names{words_of(name_ptr, name_words), weight.data(), word_ptr.data(), by_word.data(), min_coverage};
    const EvidenceView evidence{n_labels,          name_labels.data(), shared.data(),     postings(bags),
                                postings(related), std::get<0>(least), std::get<1>(least)};
    found = find_evidence(names, evidence, words_of(indptr, words), {rank_ptr.data(), labels.data(), scores.data()});
  }
  return {own(std::move(found.indptr)), own(std::move(found.labels)), own(std::move(found.features)),
          own(std::move(found.certain))};
}

std::tuple<Out<int64_t>, Out<int32_t>, Out<float>> py_join_rankings(In<int64_t> indptr, In<int32_t> labels,
                                                                    In<float> scores, In<int64_t> other_indptr,
                                                                    In<int32_t> other_labels, In<float> other_scores,
                                                                    int64_t k) {
  if (k < 1 || size_of(indptr) != size_of(other_indptr) || size_of(labels) != size_of(scores) ||
      size_of(other_labels) != size_of(other_scores))
    throw nb::value_error("join_rankings: the arrays do not fit together");
  JoinedRanking found;
  {
    nb::gil_scoped_release release;
    found = join_rankings({indptr.data(), labels.data(), scores.data()},
                          {other_indptr.data(), other_labels.data(), other_scores.data()}, size_of(indptr) - 1, k);
  }
  return {own(std::move(found.indptr)), own(std::move(found.labels)), own(std::move(found.scores))};
}

Out<double> py_boosted_sums(In<int64_t> roots, In<int32_t> feature, In<double> threshold, In<int32_t> left,
                            In<int32_t> right, In<uint8_t> missing_left, In<double> value, In<float> rows,
                            int64_t n_features, double start, int threads) {
  const int64_t n_nodes = size_of(feature);
  if (n_features < 1 || size_of(rows) % n_features || size_of(threshold) != n_nodes || size_of(left) != n_nodes ||
      size_of(right) != n_nodes || size_of(missing_left) != n_nodes || size_of(value) != n_nodes)
    throw nb::value_error("boosted_sums: the arrays do not fit together");
  const int64_t n_rows = size_of(rows) / n_features;
  Filled<double> out(n_rows);
  {
    nb::gil_scoped_release release;
    const BoostedView trees{roots.data(), size_of(roots), feature.data(),      threshold.data(),
                            left.data(),  right.data(),   missing_left.data(), value.data()};
    boosted_sums(trees, rows.data(), n_rows, n_features, start, threads, out.data());
  }
  return out.give();
}

std::tuple<Out<int64_t>, Out<int32_t>, Out<float>>
py_gather_candidates(std::vector<In<int64_t>> indptr, std::vector<In<int32_t>> labels, std::vector<In<float>> scores,
                     In<int64_t> counts, In<int64_t> lengths, int64_t found_among, int threads) {
  const int64_t n_rows = size_of(lengths);
  bool fits = labels.size() == indptr.size() && scores.size() == indptr.size();
  for (size_t i = 0; fits && i < indptr.size(); ++i)
    fits = size_of(indptr[i]) == n_rows + 1 && size_of(labels[i]) == indptr[i].data()[n_rows] &&
           size_of(scores[i]) == size_of(labels[i]) && all_within(labels[i], 0, size_of(counts));
  if (!fits)
    throw nb::value_error("gather_candidates: the arrays do not fit together");
  GatheredCandidates found;
  {
    nb::gil_scoped_release release;
    std::vector<RankingView> rankings;
    for (size_t i = 0; i < indptr.size(); ++i)
      rankings.push_back({indptr[i].data(), labels[i].data(), scores[i].data()});
    found = gather_candidates(rankings, n_rows, counts.data(), lengths.data(), found_among, threads);
  }
  return {own(std::move(found.indptr)), own(std::move(found.labels)), own(std::move(found.features))};
}

// entries of the best candidates, their features, partners
std::tuple<Out<int64_t>, Out<float>, Out<int32_t>> py_candidate_context(In<int64_t> indptr, In<int32_t> labels,
                                                                        In<double> logits, In<int64_t> pair_ptr,
                                                                        In<int32_t> pair_labels, In<float> pair_counts,
                                                                        In<int64_t> rows, int64_t n_rows, int64_t k,
                                                                        int threads) {
  const int64_t n_labels = size_of(rows), n_pairs = size_of(pair_labels);
  if (k < 1 || n_rows < 0 || size_of(indptr) < 1 || size_of(labels) != indptr.data()[size_of(indptr) - 1] ||
      size_of(logits) != size_of(labels) || size_of(pair_ptr) != n_labels + 1 || pair_ptr.data()[n_labels] != n_pairs ||
      size_of(pair_counts) != n_pairs || !all_within(labels, 0, INT32_MAX))
    throw nb::value_error("candidate_context: the arrays do not fit together");
  Context found;
  {
    nb::gil_scoped_release release;
    const CandidatesView candidates{indptr.data(), labels.data(), logits.data(), size_of(indptr) - 1};
    const PairsView pairs{pair_ptr.data(), pair_labels.data(), pair_counts.data(), rows.data(), n_labels, n_rows};
    found = candidate_context(candidates, pairs, k, threads);
  }
  return {own(std::move(found.entries)), own(std::move(found.features)), own(std::move(found.partners))};
}

} // namespace

void bind_candidates(nb::module_ &m) {
  using nb::arg;
  m.def("build_index", &py_build_index, arg("indptr").noconvert(), arg("indices").noconvert(), arg("data").noconvert(),
        arg("n_features"));
  m.def("nearest_rows", &py_nearest_rows, arg("feature_ptr").noconvert(), arg("rows").noconvert(),
        arg("codes").noconvert(), arg("scale").noconvert(), arg("n_rows"), arg("dead").noconvert(),
        arg("indptr").noconvert(), arg("indices").noconvert(), arg("data").noconvert(), arg("k"), arg("neglected"),
        arg("threads"));
  m.def("vote_labels", &py_vote_labels, arg("rows").noconvert(), arg("weights").noconvert(), arg("found").noconvert(),
        arg("label_ptr").noconvert(), arg("labels").noconvert(), arg("blocked").noconvert(), arg("k"), arg("threads"));
  m.def("prefix_words", &py_prefix_words, arg("name_ptr").noconvert(), arg("name_words").noconvert(),
        arg("weight").noconvert(), arg("min_coverage"));
  m.def("match_names", &py_match_names, arg("name_ptr").noconvert(), arg("name_words").noconvert(),
        arg("weight").noconvert(), arg("word_ptr").noconvert(), arg("by_word").noconvert(), arg("min_coverage"),
        arg("indptr").noconvert(), arg("words").noconvert(), arg("threads"));
  m.def("find_evidence", &py_find_evidence, arg("index"), arg("min_coverage"), arg("name_labels").noconvert(),
        arg("shared").noconvert(), arg("n_labels"), arg("bags"), arg("related"), arg("least"),
        arg("indptr").noconvert(), arg("words").noconvert(), arg("ranking"));
  m.def("join_rankings", &py_join_rankings, arg("indptr").noconvert(), arg("labels").noconvert(),
        arg("scores").noconvert(), arg("other_indptr").noconvert(), arg("other_labels").noconvert(),
        arg("other_scores").noconvert(), arg("k"));
  m.def("gather_candidates", &py_gather_candidates, arg("indptr").noconvert(), arg("labels").noconvert(),
        arg("scores").noconvert(), arg("counts").noconvert(), arg("lengths").noconvert(), arg("found_among"),
        arg("threads"));
  m.def("candidate_context", &py_candidate_context, arg("indptr").noconvert(), arg("labels").noconvert(),
        arg("logits").noconvert(), arg("pair_ptr").noconvert(), arg("pair_labels").noconvert(),
        arg("pair_counts").noconvert(), arg("rows").noconvert(), arg("n_rows"), arg("k"), arg("threads"));
  m.def("boosted_sums", &py_boosted_sums, arg("roots").noconvert(), arg("feature").noconvert(),
        arg("threshold").noconvert(), arg("left").noconvert(), arg("right").noconvert(),
        arg("missing_left").noconvert(), arg("value").noconvert(), arg("rows").noconvert(), arg("n_features"),
        arg("start"), arg("threads"));
}

} // namespace tagwood
