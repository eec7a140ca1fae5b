#include "train/loop/restored_job.h"

#include <filesystem>

#include "checkpoint/store.h"
#include "core/base/files.h"
#include "train/loop/run_state.h"
#include "train/loop/shared_checkpoint.h"

namespace accel {
namespace {

int64_t restore_share(Job& job, DiskFiles& files, const std::string& folder) {
  const std::string parent = std::filesystem::path(folder).parent_path().string();
  const CheckpointStore store(files, parent);
  return restore(job, store.load(folder, load_options(job, files))).progress.step;
}

}  // namespace

int64_t restore_checkpoint(Job& job, const std::string& folder) {
  DiskFiles files;
  int64_t step = 0;
  if (job.is_main) {
    try {
      step = restore_share(job, files, folder);
    } catch (const std::exception& error) {
      send_refusal(job, error);
      throw;
    }
    send_checkpoint(job, folder);
  } else {
    step = restore_share(job, files, receive_checkpoint(job, files));
  }
  for (const OptimizerBinding& binding : job.optimizers) binding.strategy->refresh_weights();
  return step;
}

}  // namespace accel
