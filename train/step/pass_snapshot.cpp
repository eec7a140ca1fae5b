#include "train/step/pass_snapshot.h"

#include <c10/core/GradMode.h>

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

}  // namespace accel
