#include "train/loop/auto_micro_batch.h"

#include <c10/core/GradMode.h>

#include "kernels/memory/caching_allocator.h"
#include "train/job/torch_setup.h"

namespace accel {

PassSnapshot::PassSnapshot(const Job& job)
    : generator_(generator_state()),
      device_generators_(device_generator_states(job.device.type())) {
  for (const Parameter& item : job.buffers) buffers_.push_back(item.local.clone());
}

void PassSnapshot::restore(const Job& job) const {
  const c10::NoGradGuard no_grad;
  for (size_t i = 0; i < buffers_.size(); ++i) job.buffers[i].local.copy_(buffers_[i]);
  set_generator_state(generator_);
  if (job.device.is_cpu()) return;
  set_device_generator_state(job.device, device_generators_[job.device.index()]);
}

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
