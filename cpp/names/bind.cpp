// Python bindings of the kernels in names/.
#include "core/binding.hpp"
#include "names/matches.hpp"

namespace tagwood {

namespace {

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

} // namespace

void bind_names(nb::module_ &m) {
  using nb::arg;
  m.def("prefix_words", &py_prefix_words, arg("name_ptr").noconvert(), arg("name_words").noconvert(),
        arg("weight").noconvert(), arg("min_coverage"));
  m.def("match_names", &py_match_names, arg("name_ptr").noconvert(), arg("name_words").noconvert(),
        arg("weight").noconvert(), arg("word_ptr").noconvert(), arg("by_word").noconvert(), arg("min_coverage"),
        arg("indptr").noconvert(), arg("words").noconvert(), arg("threads"));
}

} // namespace tagwood
