// `accelerator.pipeline` of a recipe.
#include <string>

#include "core/base/text.h"
#include "train/recipe/accelerator_section.h"
#include "train/recipe/section_check.h"

namespace accel {
namespace {

void check_stages(const PipelineSection& pipeline, int64_t ranks, SectionCheck& check) {
  const std::string schedule = Codec<PipelineKind>::write(pipeline.schedule).scalar()->text;
  const int64_t stages = pipeline.stages_of_rank();
  const bool interleaves = pipeline.schedule == PipelineKind::kInterleaved1F1B;
  const int64_t fixed = pipeline.schedule == PipelineKind::kZbV ? 2 : 1;
  if (interleaves ? stages < 2 : stages != fixed) {
    check.error("pipeline",
                text("the schedule '{}' needs {} {} per rank, not {}", schedule,
                     interleaves ? "at least 2" : std::to_string(fixed),
                     interleaves || fixed > 1 ? "stages" : "stage", stages),
                "leave 'stages_per_rank' at auto, or set 'schedule' to interleaved_1f1b");
  }
  const auto sizes = static_cast<int64_t>(pipeline.blocks.size());
  if (sizes == 0 || sizes == ranks * stages) return;
  check.error(
      "pipeline",
      text("'blocks' has {} sizes, but {} ranks have {} stages", sizes, ranks, ranks * stages),
      "give the number of blocks of each stage, or leave 'blocks' out");
}

}  // namespace

void check_pipeline_section(const AcceleratorSection& section, SectionCheck& check) {
  const PipelineSection& pipeline = section.pipeline;
  if (section.parallelism.pp == 1) {
    const bool is_default = pipeline.schedule == PipelineSection().schedule &&
                            !pipeline.stages_per_rank && pipeline.blocks.empty();
    if (is_default) return;
    check.error("pipeline", "the options of 'pipeline' have no effect without 'parallelism.pp'",
                "set 'parallelism.pp' to 2 or more, or leave 'pipeline' out");
    return;
  }
  check_stages(pipeline, section.parallelism.pp, check);
  const std::string hint = "leave one of the two out";
  if (section.fsdp.stage > 0 && section.fsdp.reshard_after_forward.value_or(false)) {
    check.error("fsdp",
                "'pp' does not support 'reshard_after_forward': passes of several micro-batches "
                "alternate in a stage, and its parameters stay gathered for them",
                "leave it out");
  }
  if (section.fsdp.offload == Offload::kDisk) {
    check.error("fsdp", "'pp' does not support 'offload: disk'", hint);
  }
  if (section.local_sgd.every) {
    check.error("parallelism", "'pp' does not support 'local_sgd'", hint);
  }
  if (section.ddp.comm_hook == CommHook::kPowerSgd) {
    check.error("parallelism", "'pp' does not support 'ddp.comm_hook' power_sgd", hint);
  }
  if (section.reduction == Reduction::kCanonical) {
    check.error("parallelism",
                "'pp' does not support 'reduction' canonical: a stage sums the gradients of "
                "micro-batches in their order",
                hint);
  }
  if (section.sync_batch_norm) {
    check.error("parallelism", "'pp' does not support 'sync_batch_norm'", hint);
  }
}

Schema<PipelineSection> PipelineSection::schema() {
  return Schema<PipelineSection>()
      .field(
          "schedule", &PipelineSection::schedule,
          "Order of passes. 1f1b: activations of at most `pp` micro-batches at a time. gpipe: of "
          "all of them, with the same idle time. interleaved_1f1b: several stages per rank, idle "
          "time divided by their number, more messages and activations. zbh1: gradients of "
          "weights in passes of their own, which fill a part of the idle time. zbv: the same with "
          "two stages per rank, and hardly any idle time.")
      .on_resume(Change::kFree)
      .hint_for({"pipeline_parallel_schedule", "pp_schedule"},
                "GPipe>gpipe|1F1B>1f1b|Interleaved1F1B>interleaved_1f1b|ZBVZeroBubble>zbv|{}")
      .field("stages_per_rank", &PipelineSection::stages_per_rank,
             "Stages of each rank; auto: 2 with interleaved_1f1b and zbv, else 1.",
             if_given<Auto>(between<int64_t>(1, 64)))
      .on_resume(Change::kFree)
      .hint_for({"num_virtual_stages", "virtual_pipeline_model_parallel_size"})
      .field(
          "blocks", &PipelineSection::blocks,
          "Number of the model's blocks in each stage; empty: as equal as possible in the number "
          "of weights of their matrix products, the head's included.")
      .on_resume(Change::kFree)
      .hint_for({"pipeline_parallel_split_points", "layers_per_stage"});
}

int64_t PipelineSection::stages_of_rank() const {
  const bool several = schedule == PipelineKind::kInterleaved1F1B || schedule == PipelineKind::kZbV;
  return stages_per_rank.value_or(several ? 2 : 1);
}

}  // namespace accel
