// Border to Python of text_words.hpp.
#include "binding.hpp"
#include "text_words.hpp"

using namespace tagwood;

namespace {

template <class Array> int64_t size_of(const Array &array) { return static_cast<int64_t>(array.shape(0)); }

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

} // namespace

namespace tagwood {

void bind_text_words(nb::module_ &m) {
  using nb::arg;
  m.def("word_rows", &py_word_rows, arg("text").noconvert(), arg("offsets").noconvert(), arg("classes").noconvert(),
        arg("folds").noconvert(), arg("slots").noconvert(), arg("n_words"), arg("longest"), arg("threads"));
}

} // namespace tagwood
