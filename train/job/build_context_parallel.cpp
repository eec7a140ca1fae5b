#include "train/job/build_context_parallel.h"

#include <string>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/context_ranks.h"
#include "train/tasks/divided_sequences.h"

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
      throw Error(ExitCode::kRecipe,
                  text("'{}' does not support the model '{}', which needs whole samples", option,
                       job.recipe.model.type),
                  text("use gpt, llama, vit or a BERT-style model, or leave '{}' out", option));
    }
    if (!dynamic_cast<DividedSequences*>(job.task.get())) {
      throw Error(
          ExitCode::kRecipe,
          text("'{}' does not support the task '{}', whose loss reads whole sequences", option,
               job.recipe.task.type),
          text("use a task of language modeling or classification, or leave '{}' out", option));
    }
    model->divide_sequences(make_context_ranks(
        job.mesh.context, {method_of(section), section.tp, section.sequence_parallel}));
  });
}

}  // namespace accel
