// Parallel loops over independent items, and SIMD. Results do not depend on which thread does which item: each item
// writes only its own output (for the one exception see tree/unseen.cpp), and sums over items are computed afterwards
// in item order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

// Run-time choice of the instruction set: one portable binary, the hot loops compiled for AVX2 and AVX-512 as well.
// Not under AddressSanitizer, which is not ready yet when the choice is made.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) &&                           \
    !defined(__SANITIZE_ADDRESS__) && !defined(TAGWOOD_PORTABLE)
#define TAGWOOD_HAS_CLONES 1
#define TAGWOOD_HOT __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TAGWOOD_HAS_CLONES 0
#define TAGWOOD_HOT
#endif

// For helpers of hot functions: they must be compiled into the caller, with the caller's instruction set.
#define TAGWOOD_INLINE __attribute__((always_inline)) inline

namespace tagwood {

// Calls body(begin, end, thread) for chunks of [0, n_items); chunks are handed out in order, on demand.
// The first exception thrown by any chunk is rethrown on the calling thread; so is a thread that cannot be created.
template <class Body> void parallel_chunks(int64_t n_items, int n_threads, int64_t chunk, Body &&body) {
  if (n_items <= 0)
    return;
  chunk = std::max<int64_t>(1, chunk);
  const int64_t n_chunks = (n_items + chunk - 1) / chunk;
  const int workers = static_cast<int>(std::min<int64_t>(std::max(1, n_threads), n_chunks));
  if (workers == 1) {
    for (int64_t begin = 0; begin < n_items; begin += chunk)
      body(begin, std::min(n_items, begin + chunk), 0);
    return;
  }
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  auto work = [&](int thread) {
    try {
      for (int64_t begin; (begin = next.fetch_add(chunk)) < n_items;)
        body(begin, std::min(n_items, begin + chunk), thread);
    } catch (...) {
      std::lock_guard<std::mutex> guard(failure_lock);
      if (!failure)
        failure = std::current_exception();
      next.store(n_items);
    }
  };
  std::vector<std::thread> threads;
  try {
    threads.reserve(static_cast<size_t>(workers - 1));
    for (int t = 1; t < workers; ++t)
      threads.emplace_back(work, t);
  } catch (...) { // no thread or no memory for it: those that run must be joined before the error is reported
    std::lock_guard<std::mutex> guard(failure_lock);
    failure = std::make_exception_ptr(std::runtime_error("a thread could not be created; use fewer threads"));
    next.store(n_items);
  }
  work(0);
  for (auto &thread : threads)
    thread.join();
  if (failure)
    std::rethrow_exception(failure);
}

} // namespace tagwood
