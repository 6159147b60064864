// The border to Python: every kernel as a function of arrays and numbers, with the GIL released.
// Each family of kernels has its own bind_*.cpp; nothing but these files knows Python.
#include <nanobind/nanobind.h>

namespace tagwood {
void bind_impute(nanobind::module_ &m);
void bind_match(nanobind::module_ &m);
void bind_calibrate(nanobind::module_ &m);
void bind_claims(nanobind::module_ &m);
void bind_merge(nanobind::module_ &m);
void bind_placement(nanobind::module_ &m);
void bind_rows(nanobind::module_ &m);
void bind_softmax_tree(nanobind::module_ &m);
void bind_text(nanobind::module_ &m);
void bind_text_rows(nanobind::module_ &m);
void bind_text_words(nanobind::module_ &m);
void bind_tree(nanobind::module_ &m);
void bind_unseen(nanobind::module_ &m);
} // namespace tagwood

NB_MODULE(_native, m) {
  tagwood::bind_impute(m);
  tagwood::bind_match(m);
  tagwood::bind_calibrate(m);
  tagwood::bind_claims(m);
  tagwood::bind_merge(m);
  tagwood::bind_placement(m);
  tagwood::bind_rows(m);
  tagwood::bind_softmax_tree(m);
  tagwood::bind_text(m);
  tagwood::bind_text_rows(m);
  tagwood::bind_text_words(m);
  tagwood::bind_tree(m);
  tagwood::bind_unseen(m);
}
