#include "train/loop/auto_micro_batch.h"

#include "kernels/memory/caching_allocator.h"

namespace accel {

int64_t smaller_micro_batch(const BatchPlan& plan) {
  const int64_t share = plan.batch / plan.world;
  for (int64_t size = plan.micro_batch * 9 / 10; size > 0; --size) {
    if (share % size == 0) return size;
  }
  return 0;
}

void set_micro_batch(Job& job, int64_t samples) {
  job.batches.micro_batch = samples;
  job.batches.accumulation = job.batches.batch / (samples * job.batches.world);
  job.train_loader->set_micro_batch(samples);
  give_back_freed_memory();
}

}  // namespace accel
