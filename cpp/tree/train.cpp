// Training block by block, each block on one thread.
#include "tree/train.hpp"

#include <algorithm>
#include <numeric>

#include "core/parallel.hpp"
#include "tree/block_training.hpp"

namespace tagwood {

std::vector<TrainedBlock> train_blocks(const CsrView &x, const TrainTasks &tasks, const TrainOptions &o) {
  std::vector<TrainedBlock> results(tasks.n_blocks);
  std::vector<Workspace> workspaces(std::max(1, o.threads));
  // Largest first, so that no thread starts a long block when the others are done.
  std::vector<int64_t> order(tasks.n_blocks);
  std::iota(order.begin(), order.end(), 0);
  auto size = [&](int64_t b) {
    return (tasks.row_end[b] - tasks.row_begin[b]) * (tasks.output_ptr[b + 1] - tasks.output_ptr[b] + 8);
  };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return size(a) > size(b); });
  parallel_chunks(tasks.n_blocks, o.threads, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i)
      results[order[i]] = BlockTraining(x, tasks, order[i], o, workspaces[thread]).run();
  });
  return results;
}

} // namespace tagwood
