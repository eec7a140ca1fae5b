#include "train/job/data_ranks.h"

#include "parallel/operations.h"

namespace accel {

DataRanks data_ranks(const Job& job) {
  return {job.data_rank, job.batches.world,
          [&job](const std::string& own) { return gather_texts(*job.mesh.data, own); }};
}

}  // namespace accel
