// `accelerator.parallelism` and `accelerator.fsdp` of a recipe.
#include <string>
#include <utility>

#include "core/base/text.h"
#include "train/recipe/accelerator_section.h"
#include "train/recipe/section_check.h"

namespace accel {
namespace {

/// Sharding reduces gradients by rows, in its own way.
void check_other_reductions(const AcceleratorSection& section, SectionCheck& check) {
  if (section.local_sgd.every) {
    check.error("fsdp", "'fsdp' does not support 'local_sgd': a rank alone has no whole weights",
                "leave one of the two out");
  }
  if (section.ddp.comm_hook == CommHook::kPowerSgd) {
    check.error(
        "fsdp",
        "'fsdp' does not support 'ddp.comm_hook' power_sgd, which compresses whole matrices",
        "leave one of the two out");
  } else if (section.ddp.comm_hook != CommHook::kNo) {
    check.error("fsdp", "'ddp.comm_hook' has no effect with 'fsdp'",
                "set 'fsdp.reduce_dtype' instead");
  }
  const FsdpSection& fsdp = section.fsdp;
  if (section.reduction != Reduction::kCanonical) return;
  if (fsdp.reduce_dtype != FsdpDtype::kFp32) {
    check.error(
        "fsdp",
        "'fsdp.reduce_dtype' must be fp32 with 'reduction' canonical: rounding would depend "
        "on the number of ranks",
        "leave one of the two out");
  }
  if (fsdp.sync_each_batch.value_or(false)) {
    check.error(
        "fsdp",
        "'sync_each_batch' has no effect with 'reduction' canonical, which reduces once per "
        "step",
        "leave it out, or leave 'reduction' at bucketed");
  }
}

void check_offload(const AcceleratorSection& section, SectionCheck& check) {
  const FsdpSection& fsdp = section.fsdp;
  if (fsdp.offload_path && fsdp.offload != Offload::kDisk) {
    check.error("fsdp", "'offload_path' has no effect without 'offload: disk'",
                "leave it out, or set 'offload: disk'");
  }
  if (fsdp.offload != Offload::kDisk) return;
  if (section.mixed_precision == MixedPrecision::kFp16) {
    check.error("fsdp",
                "'offload: disk' does not support fp16: loss scaling reads all gradients once more",
                "train in bf16");
  }
  if (section.reduction == Reduction::kCanonical) {
    check.error("fsdp",
                "'offload: disk' does not support 'reduction' canonical, which keeps whole "
                "gradients in memory",
                "leave 'reduction' at bucketed");
  }
  if (fsdp.state_dict == StateDictType::kFull) {
    check.error("fsdp",
                "'offload: disk' does not support 'state_dict: full', which takes the memory of "
                "the whole state",
                "leave 'state_dict' at sharded; 'accel-run checkpoint convert' makes full "
                "checkpoints");
  }
  if (section.parallelism.tp > 1) {
    check.error("fsdp", "'offload: disk' does not support 'parallelism.tp'",
                "leave one of the two out");
  }
}

}  // namespace

void check_tensor_parallel(const AcceleratorSection& section, SectionCheck& check) {
  if (section.parallelism.tp == 1) {
    if (!section.parallelism.sequence_parallel) return;
    check.error("parallelism", "'sequence_parallel' has no effect without 'tp'",
                "set 'tp' to 2 or more, or leave 'sequence_parallel' out");
    return;
  }
  const std::pair<bool, const char*> unsupported[] = {
      {section.local_sgd.every.has_value(), "'local_sgd'"},
      {section.ddp.comm_hook == CommHook::kPowerSgd,
       "'ddp.comm_hook' power_sgd, which compresses whole matrices"},
      {section.reduction == Reduction::kCanonical,
       "'reduction' canonical: sums inside a layer depend on its number of ranks"},
      {section.sync_batch_norm, "'sync_batch_norm'"}};
  for (const auto& [given, what] : unsupported) {
    if (!given) continue;
    check.error("parallelism", text("'tp' does not support {}", what), "leave one of the two out");
  }
}

void check_expert_parallel(const AcceleratorSection& section, SectionCheck& check) {
  const ParallelismSection& parallelism = section.parallelism;
  if (parallelism.ep == 1) return;
  const std::pair<bool, const char*> unsupported[] = {
      {section.local_sgd.every.has_value(), "'local_sgd'"},
      {section.ddp.comm_hook == CommHook::kPowerSgd, "'ddp.comm_hook' power_sgd"},
      {section.reduction == Reduction::kCanonical,
       "'reduction' canonical: an expert adds the tokens of several ranks"},
      {section.fsdp.offload == Offload::kDisk, "'fsdp.offload' disk"},
      {section.sync_batch_norm, "'sync_batch_norm'"}};
  for (const auto& [given, what] : unsupported) {
    if (!given) continue;
    check.error("parallelism", text("'ep' does not support {}", what), "leave one of the two out");
  }
}

void check_context_parallel(const AcceleratorSection& section, SectionCheck& check) {
  const ParallelismSection& sizes = section.parallelism;
  if (sizes.cp == 1 && sizes.cp_comm_strategy != ParallelismSection().cp_comm_strategy) {
    check.error("parallelism", "'cp_comm_strategy' has no effect without 'cp'",
                "set 'cp' to 2 or more, or leave 'cp_comm_strategy' out");
  }
  if (sizes.cp == 1 && sizes.sp == 1) return;
  const std::pair<bool, const char*> unsupported[] = {
      {sizes.cp > 1 && sizes.sp > 1, "'sp': both divide the sequence"},
      {section.local_sgd.every.has_value(), "'local_sgd'"},
      {section.ddp.comm_hook == CommHook::kPowerSgd, "'ddp.comm_hook' power_sgd"},
      {section.reduction == Reduction::kCanonical,
       "'reduction' canonical: sums over a sequence depend on its number of ranks"},
      {section.sync_batch_norm, "'sync_batch_norm'"}};
  for (const auto& [given, what] : unsupported) {
    if (!given) continue;
    check.error("parallelism", text("'{}' does not support {}", sizes.cp > 1 ? "cp" : "sp", what),
                "leave one of the two out");
  }
}

void check_fsdp_section(const AcceleratorSection& section, SectionCheck& check) {
  const FsdpSection& fsdp = section.fsdp;
  if (fsdp.stage == 0) {
    const bool writes_full = fsdp.state_dict != StateDictType::kSharded &&
                             section.parallelism.tp == 1 && section.parallelism.pp == 1 &&
                             section.parallelism.ep == 1;
    if (fsdp.reshard_after_forward || fsdp.sync_each_batch || !fsdp.ignored.empty() ||
        fsdp.min_num_params > 0 || fsdp.param_dtype || fsdp.reduce_dtype != FsdpDtype::kFp32 ||
        writes_full || fsdp.offload != Offload::kNone) {
      check.error("fsdp", "the options of 'fsdp' have no effect without 'stage'",
                  "add 'stage: 3', or leave 'fsdp' out");
    }
    if (section.parallelism.dp_shard.value_or(1) > 1) {
      check.error("parallelism", "'dp_shard' has no effect without 'fsdp'",
                  "add 'fsdp: {stage: 3}', or leave 'dp_shard' out");
    }
    return;
  }
  if (fsdp.reshard_after_forward && fsdp.stage != 3) {
    check.error("fsdp",
                text("'reshard_after_forward' has no effect at stage {}, which keeps parameters",
                     fsdp.stage),
                "leave it out, or set 'stage: 3'");
  }
  if (fsdp.sync_each_batch.value_or(false) && fsdp.stage == 1) {
    check.error("fsdp", "'sync_each_batch' has no effect at stage 1, which keeps whole gradients",
                "leave it out, or set 'stage: 2'");
  }
  const FsdpDtype of_autocast = FsdpSection().param_dtype_under(section.mixed_precision);
  const FsdpDtype param_dtype = fsdp.param_dtype.value_or(of_autocast);
  if (param_dtype != FsdpDtype::kFp32 && param_dtype != of_autocast) {
    check.error("fsdp", "'param_dtype' is a 16-bit type other than that of 'mixed_precision'",
                "leave 'param_dtype' out, or set 'mixed_precision' to the same type");
  }
  check_other_reductions(section, check);
  check_offload(section, check);
}

namespace {

/// Context, pipeline and expert parallelism.
Schema<ParallelismSection> with_other_axes(Schema<ParallelismSection> schema) {
  return std::move(schema)
      .field("cp", &ParallelismSection::cp,
             "Context parallelism: ranks that divide each sequence of `gpt`, `llama`, `vit` or a "
             "BERT-style model and get the same samples. Divides activations and computation "
             "(`fsdp` divides parameters "
             "over `cp` too) and communicates in every layer: for long sequences.",
             between<int64_t>(1, kMostProcesses))
      .on_resume(Change::kFree)
      .hint_for({"cp_size", "context_parallel_size", "context_parallel_degree"})
      .field("cp_comm_strategy", &ParallelismSection::cp_comm_strategy,
             "Exchange of keys and values under `cp`. allgather: every rank gathers all of them in "
             "one collective per layer, which is fast on few ranks and takes their memory. ring: "
             "they travel from rank to rank while attention is computed, so that no rank holds "
             "all; for long sequences and many ranks, without dropout of attention weights.")
      .on_resume(Change::kFree)
      .hint_for({"cp_rotate_method", "context_parallel_rotate_method"}, "alltoall>ring|{}")
      .field("sp", &ParallelismSection::sp,
             "Context parallelism of DeepSpeed's Ulysses, instead of `cp`: two exchanges per layer "
             "give each rank the whole sequence of its heads in attention. Sends the least and "
             "needs a divisor of the model's `num_heads`.",
             between<int64_t>(1, kMostProcesses))
      .on_resume(Change::kFree)
      .hint_for({"sp_size", "ulysses_sequence_parallel_size"})
      .field(
          "pp", &ParallelismSection::pp,
          "Pipeline parallelism: ranks that run consecutive stages of `gpt`, `llama`, `vit` or a "
          "BERT-style model and get the same samples. Divides parameters and their state and "
          "communicates activations between stages alone, so that a slow link suffices; ranks "
          "are idle at the start and the end of a step, the less the more micro-batches it has.",
          between<int64_t>(1, kMostProcesses))
      .on_resume(Change::kFree)
      .hint_for({"pp_size", "pp_degree", "pipeline_parallel_size", "pipeline_parallel_degree",
                 "pipeline_model_parallel_size"})
      .field("ep", &ParallelismSection::ep,
             "Expert parallelism: data and context parallel ranks that divide the experts of each "
             "layer of `llama` with `moe`. Divides the experts' parameters and their state; tokens "
             "are sent to their experts and back, in each layer and pass. A divisor of the number "
             "of experts and of `dp_replicate` x `dp_shard` x `cp` x `sp`: use the fewest ranks "
             "whose memory the experts fit into, on a fast link.",
             between<int64_t>(1, kMostProcesses))
      .on_resume(Change::kFree)
      .hint_for({"ep_size", "expert_parallel_size", "expert_parallel_degree",
                 "expert_model_parallel_size", "expert_model_parallel_degree"});
}

}  // namespace

Schema<ParallelismSection> ParallelismSection::schema() {
  auto schema =
      Schema<ParallelismSection>()
          .field("dp_replicate", &ParallelismSection::dp_replicate,
                 "Groups of ranks that each hold the whole model; auto: the ranks divided by "
                 "`dp_shard`.",
                 if_given<Auto>(between<int64_t>(1, kMostProcesses)))
          .on_resume(Change::kFree)
          .hint_for({"dp_replicate_size", "data_parallel_replicate_degree"})
          .field(
              "dp_shard", &ParallelismSection::dp_shard,
              "Ranks that share one copy of the model under `fsdp`; auto: all that `dp_replicate` "
              "leaves. Fewer communicate less, more take less memory each.",
              if_given<Auto>(between<int64_t>(1, kMostProcesses)))
          .on_resume(Change::kFree)
          .hint_for({"dp_shard_size", "data_parallel_shard_degree"})
          .field(
              "tp", &ParallelismSection::tp,
              "Tensor parallelism: ranks that divide each layer of `gpt`, `llama`, `vit` or a "
              "BERT-style model and get the same samples. Divides parameters, their state and "
              "their "
              "computation, and "
              "communicates activations twice per layer and pass: use neighbours with a fast link, "
              "where one rank's memory or batch is too small for the other axes.",
              between<int64_t>(1, kMostProcesses))
          .on_resume(Change::kFree)
          .hint_for({"tp_size", "tp_degree", "tensor_parallel_size", "tensor_parallel_degree",
                     "tensor_model_parallel_size"})
          .field("sequence_parallel", &ParallelismSection::sequence_parallel,
                 "With `tp`, divide the activations between layers along the sequence: less memory "
                 "for "
                 "activations at the same traffic. Sequences are padded to a multiple of `tp`.")
          .on_resume(Change::kFree)
          .hint_for({"sequence_parallelism"});
  return with_other_axes(std::move(schema));
}

Schema<FsdpSection> FsdpSection::schema() {
  return Schema<FsdpSection>()
      .field("stage", &FsdpSection::stage,
             "ZeRO stage. 0: every rank holds all. 1: optimizer state is sharded over ranks. 2: "
             "gradients too. 3: parameters too, gathered for each block's forward and backward "
             "pass, with 1.5 times the communication. Use the lowest stage that fits into memory.",
             between<int64_t>(0, 3))
      .on_resume(Change::kFree)
      .hint_for({"zero_stage"})
      .field(
          "reshard_after_forward", &FsdpSection::reshard_after_forward,
          "Free a block's parameters after its forward pass; auto: at stage 3 without `pp`. false "
          "saves a gather per block and takes the memory of all parameters during a pass.")
      .on_resume(Change::kFree)
      .hint_for({"fsdp_reshard_after_forward"})
      .field("sync_each_batch", &FsdpSection::sync_each_batch,
             "Reduce the gradients of each micro-batch, not of the last one alone; auto: at stages "
             "2 and 3 without `pp`. false communicates less and keeps whole gradients meanwhile.")
      .on_resume(Change::kFree)
      .field(
          "param_dtype", &FsdpSection::param_dtype,
          "Type of the whole weights of blocks' linear layers and convolutions; auto: that of "
          "`mixed_precision`, with half the memory and traffic of fp32 and the same results, "
          "since autocast casts them anyway. fp32: for a plugin's model that uses one elsewhere.")
      .on_resume(Change::kFree)
      .field("reduce_dtype", &FsdpSection::reduce_dtype,
             "Type of gradients in the reduction. 16-bit types halve its traffic and round sums.")
      .field(
          "min_num_params", &FsdpSection::min_num_params,
          "Blocks with fewer parameters join the root unit, which is gathered once per step: fewer "
          "small collectives, more memory.",
          at_least<int64_t>(0))
      .on_resume(Change::kFree)
      .hint_for({"fsdp_min_num_params"})
      .field("ignored", &FsdpSection::ignored,
             "Name patterns of parameters that every rank holds whole, such as `*.bias`.")
      .on_resume(Change::kFree)
      .hint_for({"ignored_modules", "fsdp_ignored_modules"})
      .field("state_dict", &FsdpSection::state_dict,
             "Format of checkpoints; both resume on any number of ranks and stage. sharded: one "
             "file per rank in PyTorch's distributed format, without communication; all ranks must "
             "see the run folder. full: rank 0 gathers and writes model.safetensors and "
             "optimizer.bin, which needs time and memory for the whole state.")
      .on_resume(Change::kFree)
      .hint_for({"state_dict_type", "fsdp_state_dict_type"},
                "SHARDED_STATE_DICT>sharded|FULL_STATE_DICT>full|{}")
      .field(
          "offload", &FsdpSection::offload,
          "Where sharded state is while it is not used. cpu: in the host's memory, for models "
          "larger than a GPU's; without effect on the CPU. disk: in a scratch file per rank, for "
          "models larger than memory: adamw at stage 3 moves 40 bytes per parameter and step.")
      .on_resume(Change::kFree)
      .hint_for({"offload_params", "fsdp_offload_params", "cpu_offload", "offload_optimizer",
                 "offload_param"},
                "true>cpu|false>none|nvme>disk|{}")
      .field("offload_path", &FsdpSection::offload_path,
             "Folder of the scratch file, best on a local NVMe disk. auto: the working folder.")
      .on_resume(Change::kFree)
      .hint_for({"nvme_path", "offload_folder"});
}

FsdpDtype FsdpSection::param_dtype_under(MixedPrecision precision) const {
  if (param_dtype) return *param_dtype;
  switch (precision) {
    case MixedPrecision::kNo:
      return FsdpDtype::kFp32;
    case MixedPrecision::kFp16:
      return FsdpDtype::kFp16;
    case MixedPrecision::kBf16:
    case MixedPrecision::kFp8:
      return FsdpDtype::kBf16;
  }
  return FsdpDtype::kFp32;
}

}  // namespace accel
