// Parser of sparse rows as text: "l1,l2 f:v f:v ..." per line, as in the extreme classification repository.
#pragma once

#include <cstdint>
#include <vector>

namespace tagwood {

// What is wrong with a line; the words for users are in Python.
enum class RowProblem : int32_t {
  none = 0,
  label = 1,         // a label is not a whole number, or a comma has nothing beside it
  label_range = 2,   // a label is not below n_labels
  feature = 3,       // not "feature:value" with a whole number before the colon
  feature_range = 4, // a feature is not below n_features
  value = 5,         // the value is not a number
  value_range = 6,   // the value is infinite or too large for float32
};

struct ParsedRows {
  std::vector<int64_t> label_ends;
  std::vector<int32_t> labels;
  std::vector<int64_t> feature_ends;
  std::vector<int32_t> features;
  std::vector<float> values;
  int64_t consumed = 0; // bytes of the complete lines that were parsed; on a problem, the start of its line
  RowProblem problem = RowProblem::none;
  int64_t problem_at = 0; // byte where the offending token begins
};

// Parses complete lines, at most max_rows, and stops before the first bad one. A line without a line break at the
// end is parsed only if `last`. A first token with a colon is a feature: such a row has no labels.
void parse_rows(const char *text, int64_t size, bool last, int64_t max_rows, int64_t n_labels, int64_t n_features,
                ParsedRows &out);

} // namespace tagwood
