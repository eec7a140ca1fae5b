#include "runner/job/evaluation_job.h"

#include "models/module_state.h"
#include "runner/job/build_data.h"
#include "runner/job/build_strategy.h"
#include "runner/job/model_fit.h"
#include "runner/job/tensor_memory.h"
#include "runner/job/torch_setup.h"

namespace accel {

std::unique_ptr<Job> evaluation_job(EvaluationParts parts, const Registry& registry) {
  auto job = std::make_unique<Job>();
  job->recipe = std::move(parts.recipe);
  job->resolved = std::move(parts.resolved);
  job->group = World{}.group;
  job->watch = World{}.watch;
  job->batches = plan_batches(shared_train(job->recipe, parts.world), parts.world);
  keep_freed_memory();
  use_kernels(job->recipe.accelerator.kernels);
  set_threads(threads_of(job->recipe.accelerator, 1));
  set_deterministic(job->recipe.train.deterministic);
  job->data = std::move(parts.data);
  open_eval_data(*job);
  job->model = std::move(parts.model);
  job->parameters = parameters_of(*job->model);
  job->buffers = buffers_of(*job->model);
  job->task = build(job->recipe.task, TaskContext{job->data});
  job->task_models = job->task->models();
  check_eval_data_fits(*job);
  job->precision = make_precision(job->recipe.accelerator.mixed_precision, at::kCPU,
                                  job->recipe.accelerator.grad_scaler);
  job->learning = {job->model.get()};
  job->trained.push_back({kRecipeOptimizer, {}, make_single(), nullptr});
  build_metrics(*job, registry);
  return job;
}

}  // namespace accel
