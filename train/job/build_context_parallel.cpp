#include "train/job/build_context_parallel.h"

#include <string>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/context_ranks.h"

namespace accel {
namespace {

ContextMethod method_of(const ParallelismSection& section) {
  if (section.sp > 1) return ContextMethod::kUlysses;
  return section.cp_comm_strategy == ContextStrategy::kRing ? ContextMethod::kRing
                                                            : ContextMethod::kAllGather;
}

}  // namespace

void divide_sequences(const Job& job) {
  if (job.mesh.context->world() == 1) return;
  const ParallelismSection& section = job.recipe.accelerator.parallelism;
  const char* const option = section.sp > 1 ? "sp" : "cp";
  const std::string path = std::string("accelerator.parallelism.") + option;
  at_place(recipe_place(job.resolved, path), [&] {
    auto* model = dynamic_cast<ContextParallel*>(job.model.get());
    if (!model) {
      throw Error(
          ExitCode::kRecipe,
          text("'{}' does not support the model '{}', whose attention reads whole sequences",
               option, job.recipe.model.type),
          text("use gpt or llama, or leave '{}' out", option));
    }
    if (job.recipe.task.type != "causal_lm") {
      throw Error(ExitCode::kRecipe,
                  text("'{}' does not support the task '{}', whose loss reads whole sequences",
                       option, job.recipe.task.type),
                  text("use causal_lm, or leave '{}' out", option));
    }
    model->divide_sequences(make_context_ranks(
        job.mesh.context, {method_of(section), section.tp, section.sequence_parallel}));
  });
}

}  // namespace accel
