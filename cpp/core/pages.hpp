// Pages of mapped files that a kernel has read and does not need soon.
//
// They stay in the page cache of the system, but no longer count as memory of this process, whose peak is then what the
// kernel allocates and not the size of the files.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "core/arrays.hpp"

namespace tagwood {

// Follows the rows that are read in rising order from a matrix in mapped files, and releases them some megabytes at a
// time. Only for files: the same call would clear memory that belongs to no file.
class PagesRead {
public:
  PagesRead(const CsrView &x, bool mapped) : x_(x), mapped_(mapped) {}

  // A row beyond the last one has been read.
  void read(int64_t row) {
    if (!mapped_)
      return;
    if (first_ < 0) {
      first_ = window_ = x_.indptr[row];
      n_windows_ = 1;
    }
    last_ = x_.indptr[row + 1];
    for (; last_ - window_ > kWindow && n_windows_ < kWindows; ++n_windows_)
      window_ = std::max(window_ + kWindow, x_.indptr[row]);
    if (n_windows_ >= kWindows)
      release();
  }

  void release() {
    if (first_ >= 0) {
      drop(x_.indices + first_, x_.indices + last_);
      drop(x_.data + first_, x_.data + last_);
    }
    first_ = -1;
  }

private:
  // The system maps the 16 pages around one that is read, so few distant rows take as much memory as many adjacent
  // ones: memory is counted in windows of that size.
  static constexpr int64_t kWindow = (1 << 16) / sizeof(float), kWindows = 128;

  static void drop(const void *begin, const void *end) {
    static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t from = reinterpret_cast<uintptr_t>(begin) / page * page;
    const uintptr_t to = (reinterpret_cast<uintptr_t>(end) + page - 1) / page * page;
    if (from < to)
      madvise(reinterpret_cast<void *>(from), to - from, MADV_DONTNEED);
  }

  const CsrView &x_;
  bool mapped_;
  int64_t first_ = -1, last_ = 0, window_ = 0, n_windows_ = 0;
};

} // namespace tagwood
