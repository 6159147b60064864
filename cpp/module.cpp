// The native module `tagwood._kernels._native`: kernels as functions of arrays and numbers, with the GIL released.
//
// Each folder is one area: its kernels, which know nothing of Python, and one bind.cpp, which checks shapes and calls
// them. To add an area, write `void bind_<area>(nb::module_ &m)` in <area>/bind.cpp, and declare and call it below;
// CMake finds the new files. Includes are relative to cpp/, such as "core/arrays.hpp".
#include <nanobind/nanobind.h>

namespace tagwood {
void bind_candidates(nanobind::module_ &m);
void bind_groups(nanobind::module_ &m);
void bind_rows(nanobind::module_ &m);
void bind_softmax(nanobind::module_ &m);
void bind_text(nanobind::module_ &m);
void bind_tree(nanobind::module_ &m);
} // namespace tagwood

NB_MODULE(_native, m) {
  tagwood::bind_candidates(m);
  tagwood::bind_groups(m);
  tagwood::bind_rows(m);
  tagwood::bind_softmax(m);
  tagwood::bind_text(m);
  tagwood::bind_tree(m);
}
