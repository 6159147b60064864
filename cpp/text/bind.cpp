// Python bindings of the kernels in text/.
#include "core/binding.hpp"
#include "text/terms.hpp"

namespace tagwood {

namespace {

using Lengths = std::tuple<int, int, int, int, int>;

TextView texts_of(const In<uint8_t> &bytes, const In<int64_t> &offsets) {
  return {bytes.data(), offsets.data(), static_cast<int64_t>(offsets.shape(0)) - 1};
}

CharTables tables_of(const In<uint8_t> &classes, const In<uint32_t> &folds) {
  return {classes.data(), static_cast<int64_t>(classes.shape(0)), folds.data(), static_cast<int64_t>(folds.shape(0))};
}

Ngrams ngrams_of(const Lengths &lengths) {
  return {std::get<0>(lengths), std::get<1>(lengths), std::get<2>(lengths), std::get<3>(lengths), std::get<4>(lengths)};
}

Out<int64_t> py_complex_rows(In<uint8_t> bytes, In<int64_t> offsets, In<uint32_t> folds) {
  std::vector<int64_t> rows;
  {
    nb::gil_scoped_release release;
    const CharTables tables{nullptr, 0, folds.data(), static_cast<int64_t>(folds.shape(0))};
    rows = complex_rows(texts_of(bytes, offsets), tables);
  }
  return own(std::move(rows));
}

std::tuple<Out<uint64_t>, Out<int64_t>> py_count_terms(In<uint8_t> bytes, In<int64_t> offsets, In<uint8_t> classes,
                                                       In<uint32_t> folds, Lengths lengths, int threads) {
  TermCounts counts;
  {
    nb::gil_scoped_release release;
    counts = count_terms(texts_of(bytes, offsets), tables_of(classes, folds), ngrams_of(lengths), threads);
  }
  return {own(std::move(counts.keys)), own(std::move(counts.counts))};
}

std::tuple<Out<uint64_t>, Out<int64_t>> py_merge_counts(In<uint64_t> left_keys, In<int64_t> left_counts,
                                                        In<uint64_t> right_keys, In<int64_t> right_counts) {
  TermCounts counts;
  {
    nb::gil_scoped_release release;
    counts = merge_counts(left_keys.data(), left_counts.data(), static_cast<int64_t>(left_keys.shape(0)),
                          right_keys.data(), right_counts.data(), static_cast<int64_t>(right_keys.shape(0)));
  }
  return {own(std::move(counts.keys)), own(std::move(counts.counts))};
}

Out<uint64_t> py_build_vocabulary(In<uint64_t> keys) {
  std::vector<uint64_t> slots;
  {
    nb::gil_scoped_release release;
    slots = build_vocabulary(keys.data(), static_cast<int64_t>(keys.shape(0)));
  }
  return own(std::move(slots));
}

std::tuple<Out<int32_t>, Out<int64_t>, Out<uint8_t>> py_spell_terms(In<uint8_t> bytes, In<int64_t> offsets,
                                                                    In<uint8_t> classes, In<uint32_t> folds,
                                                                    Lengths lengths, In<uint64_t> slots,
                                                                    In<uint8_t> known, int char_mark, int threads) {
  Spellings found;
  {
    nb::gil_scoped_release release;
    const VocabularyView vocabulary(slots.data(), static_cast<int64_t>(slots.shape(0)),
                                    static_cast<int64_t>(known.shape(0)));
    found = spell_terms(texts_of(bytes, offsets), tables_of(classes, folds), ngrams_of(lengths), vocabulary,
                        known.data(), static_cast<uint8_t>(char_mark), threads);
  }
  return {own(std::move(found.ids)), own(std::move(found.offsets)), own(std::move(found.bytes))};
}

std::tuple<Out<int64_t>, Out<int32_t>, Out<float>> py_tfidf_rows(In<uint8_t> bytes, In<int64_t> offsets,
                                                                 In<uint8_t> classes, In<uint32_t> folds,
                                                                 Lengths lengths, In<uint64_t> slots, In<float> idf,
                                                                 bool sublinear, int threads) {
  TextRows rows;
  {
    nb::gil_scoped_release release;
    const int64_t n_features = static_cast<int64_t>(idf.shape(0));
    const VocabularyView vocabulary(slots.data(), static_cast<int64_t>(slots.shape(0)), n_features);
    rows = tfidf_rows(texts_of(bytes, offsets), tables_of(classes, folds), ngrams_of(lengths), vocabulary,
                      {idf.data(), n_features, sublinear}, threads);
  }
  return {own(std::move(rows.indptr)), own(std::move(rows.indices)), own(std::move(rows.data))};
}

std::tuple<Out<int64_t>, Out<int32_t>> py_word_rows(In<uint8_t> bytes, In<int64_t> offsets, In<uint8_t> classes,
                                                    In<uint32_t> folds, In<uint64_t> slots, int64_t n_words,
                                                    int64_t longest, int threads) {
  WordRows rows;
  {
    nb::gil_scoped_release release;
    const TextView texts{bytes.data(), offsets.data(), size_of(offsets) - 1};
    const CharTables tables{classes.data(), size_of(classes), folds.data(), size_of(folds)};
    rows = word_rows(texts, tables, VocabularyView(slots.data(), size_of(slots), n_words), longest, threads);
  }
  return {own(std::move(rows.indptr)), own(std::move(rows.ids))};
}

std::tuple<Out<int64_t>, Out<int32_t>, Out<float>>
py_bag_rows(In<uint8_t> bytes, In<int64_t> offsets, In<uint8_t> classes, In<uint32_t> folds, In<uint64_t> slots,
            int64_t n_words, In<int32_t> buckets, int longest, int64_t n_features, bool counts_unknown, int threads) {
  TextRows rows;
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

} // namespace

void bind_text(nb::module_ &m) {
  using nb::arg;
  m.def("complex_rows", &py_complex_rows, "Rows with a code point outside ASCII that `folds` cannot map on its own.",
        arg("text").noconvert(), arg("offsets").noconvert(), arg("folds").noconvert());
  m.def("count_terms", &py_count_terms, "Keys of all n-grams, rising, and the number of texts that contain each.",
        arg("text").noconvert(), arg("offsets").noconvert(), arg("classes").noconvert(), arg("folds").noconvert(),
        arg("lengths"), arg("threads"));
  m.def("merge_counts", &py_merge_counts, "Sum of the counts of two sets of texts; keys rise.",
        arg("left_keys").noconvert(), arg("left_counts").noconvert(), arg("right_keys").noconvert(),
        arg("right_counts").noconvert());
  m.def("build_vocabulary", &py_build_vocabulary, "Hash table that finds the features 0, 1, ... by their keys.",
        arg("keys").noconvert());
  m.def("spell_terms", &py_spell_terms,
        "Ids (rising), offsets and bytes of the spellings of features that are not `known` yet.",
        arg("text").noconvert(), arg("offsets").noconvert(), arg("classes").noconvert(), arg("folds").noconvert(),
        arg("lengths"), arg("slots").noconvert(), arg("known").noconvert(), arg("char_mark"), arg("threads"));
  m.def("tfidf_rows", &py_tfidf_rows, "CSR rows of TF-IDF weights, scaled to norm 1, columns rising.",
        arg("text").noconvert(), arg("offsets").noconvert(), arg("classes").noconvert(), arg("folds").noconvert(),
        arg("lengths"), arg("slots").noconvert(), arg("idf").noconvert(), arg("sublinear"), arg("threads"));
  m.def("word_rows", &py_word_rows,
        "Row borders and word numbers of the first `longest` words of each text; -1 for unknown words.",
        arg("text").noconvert(), arg("offsets").noconvert(), arg("classes").noconvert(), arg("folds").noconvert(),
        arg("slots").noconvert(), arg("n_words"), arg("longest"), arg("threads"));
  m.def("bag_rows", &py_bag_rows,
        "CSR rows of words and hashed word n-grams; a value is the share of its feature in the text.",
        arg("text").noconvert(), arg("offsets").noconvert(), arg("classes").noconvert(), arg("folds").noconvert(),
        arg("slots").noconvert(), arg("n_words"), arg("buckets").noconvert(), arg("longest"), arg("n_features"),
        arg("counts_unknown"), arg("threads"));
}

} // namespace tagwood
