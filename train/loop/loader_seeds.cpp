#include "train/loop/loader_seeds.h"

#include "train/job/torch_setup.h"

namespace accel {
namespace {

bool is_shared(const Job& job) {
  return job.recipe.compat.dataloader_generator == DataloaderGenerator::kShared;
}

}  // namespace

void draw_epoch_seeds(const Job& job, RunState& state) {
  if (!is_shared(job)) return;
  draw_seed();  // of the workers
  if (job.recipe.compat.use_seedable_sampler) return;
  state.sampler_seed = draw_seed();
  job.train_loader->set_sampler_seed(*state.sampler_seed);
  job.train_loader->seek(state.progress.epoch, 0);
}

void draw_evaluation_seed(const Job& job) {
  if (is_shared(job)) draw_seed();
}

}  // namespace accel
