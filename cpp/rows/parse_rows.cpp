#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "rows/rows.hpp"

namespace tagwood {

namespace {

constexpr double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

struct Cursor {
  const char *at;
  const char *end; // of the line

  bool done() const { return at == end; }
  bool is(char c) const { return at != end && *at == c; }
  bool token_ends() const { return at == end || is_space(*at); }
  void skip_spaces() {
    while (at != end && is_space(*at))
      ++at;
  }
};

// Reads digits; false if there are none. A number above the limit of int64 is returned as that limit.
bool read_index(Cursor &in, int64_t &index) {
  constexpr int64_t limit = std::numeric_limits<int64_t>::max();
  const char *begin = in.at;
  int64_t number = 0;
  for (; in.at != in.end && is_digit(*in.at); ++in.at)
    number = number > (limit - 9) / 10 ? limit : number * 10 + (*in.at - '0');
  index = number;
  return in.at != begin;
}

// The digits of a decimal number as mantissa * 10^exponent; `exact`: no digit was dropped.
struct Decimal {
  uint64_t mantissa = 0;
  int64_t exponent = 0;
  bool exact = true;
  bool any_digit = false;

  void add(char c, bool fraction) {
    any_digit = true;
    if (mantissa < 100'000'000'000'000'000ULL) {
      mantissa = mantissa * 10 + static_cast<uint64_t>(c - '0');
      exponent -= fraction;
    } else {
      exact = exact && c == '0';
      exponent += !fraction;
    }
  }
};

bool read_exponent(Cursor &in, Decimal &number) {
  if (!in.is('e') && !in.is('E'))
    return true;
  ++in.at;
  const bool negative = in.is('-');
  if (negative || in.is('+'))
    ++in.at;
  int64_t exponent;
  if (!read_index(in, exponent))
    return false;
  exponent = exponent > 1'000'000 ? 1'000'000 : exponent;
  number.exponent += negative ? -exponent : exponent;
  return true;
}

// The nearest double, as any correct parser gives it: exactly for short numbers, by the library for the others.
double to_double(const Decimal &number, const char *begin, const char *end) {
  const int64_t e = number.exponent;
  if (number.exact && number.mantissa <= (1ULL << 53) && e >= -22 && e <= 22) {
    const double mantissa = static_cast<double>(number.mantissa);
    return e < 0 ? mantissa / powers_of_ten[-e] : mantissa * powers_of_ten[e];
  }
  if (number.mantissa == 0)
    return 0.0;
  double value = 0;
  const auto result = std::from_chars(begin, end, value);
  if (result.ec == std::errc::result_out_of_range)
    return e > -100 ? std::numeric_limits<double>::infinity() : 0.0;
  return value;
}

RowProblem read_value(Cursor &in, float &value) {
  const bool negative = in.is('-');
  if (negative || in.is('+'))
    ++in.at;
  const char *begin = in.at;
  Decimal number;
  for (; in.at != in.end && is_digit(*in.at); ++in.at)
    number.add(*in.at, false);
  if (in.is('.'))
    for (++in.at; in.at != in.end && is_digit(*in.at); ++in.at)
      number.add(*in.at, true);
  if (!number.any_digit) { // infinity and NaN are numbers for other tools: report them as out of range
    for (const char *word : {"inf", "nan", "Inf", "NaN", "INF", "NAN"})
      if (in.end - begin >= 3 && std::memcmp(begin, word, 3) == 0)
        return RowProblem::value_range;
    return RowProblem::value;
  }
  if (!read_exponent(in, number) || !in.token_ends())
    return RowProblem::value;
  const double exact = to_double(number, begin, in.at);
  value = static_cast<float>(negative ? -exact : exact);
  return std::isfinite(value) ? RowProblem::none : RowProblem::value_range;
}

RowProblem read_labels(Cursor &in, int64_t n_labels, std::vector<int32_t> &labels) {
  while (true) {
    int64_t label;
    if (!read_index(in, label))
      return RowProblem::label;
    const bool more = in.is(',');
    if (!more && !in.token_ends())
      return RowProblem::label;
    if (label >= n_labels)
      return RowProblem::label_range;
    labels.push_back(static_cast<int32_t>(label));
    if (!more)
      return RowProblem::none;
    ++in.at;
  }
}

RowProblem read_feature(Cursor &in, int64_t n_features, ParsedRows &out) {
  int64_t feature;
  if (!read_index(in, feature) || !in.is(':'))
    return RowProblem::feature;
  if (feature >= n_features)
    return RowProblem::feature_range;
  ++in.at;
  float value = 0;
  const RowProblem problem = read_value(in, value);
  if (problem == RowProblem::none) {
    out.features.push_back(static_cast<int32_t>(feature));
    out.values.push_back(value);
  }
  return problem;
}

bool first_token_is_feature(Cursor in) {
  while (in.at != in.end && is_digit(*in.at))
    ++in.at;
  return in.is(':');
}

RowProblem read_row(Cursor in, int64_t n_labels, int64_t n_features, ParsedRows &out, const char *&token) {
  const bool labels_first = !in.done() && !is_space(*in.at);
  in.skip_spaces();
  token = in.at;
  if (labels_first && !in.done() && !first_token_is_feature(in)) {
    const RowProblem problem = read_labels(in, n_labels, out.labels);
    if (problem != RowProblem::none)
      return problem;
  }
  for (in.skip_spaces(); !in.done(); in.skip_spaces()) {
    token = in.at;
    const RowProblem problem = read_feature(in, n_features, out);
    if (problem != RowProblem::none)
      return problem;
  }
  return RowProblem::none;
}

} // namespace

void parse_rows(const char *text, int64_t size, bool last, int64_t max_rows, int64_t n_labels, int64_t n_features,
                ParsedRows &out) {
  int64_t at = 0;
  for (int64_t row = 0; at < size && row < max_rows; ++row) {
    const char *line = text + at;
    const void *found = std::memchr(line, '\n', static_cast<size_t>(size - at));
    if (!found && !last)
      break;
    const char *end = found ? static_cast<const char *>(found) : text + size;
    const char *token = line;
    const size_t n_old_labels = out.labels.size(), n_old_features = out.features.size();
    out.problem = read_row({line, end}, n_labels, n_features, out, token);
    if (out.problem != RowProblem::none) {
      out.labels.resize(n_old_labels);
      out.features.resize(n_old_features);
      out.values.resize(n_old_features);
      out.problem_at = token - text;
      break;
    }
    out.label_ends.push_back(static_cast<int64_t>(out.labels.size()));
    out.feature_ends.push_back(static_cast<int64_t>(out.features.size()));
    at = end - text + (found ? 1 : 0);
  }
  out.consumed = at;
}

} // namespace tagwood
