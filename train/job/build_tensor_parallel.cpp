#include "train/job/build_tensor_parallel.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/recipe/name_pattern.h"
#include "kernels/memory/deferred_init.h"
#include "models/layers/module_state.h"
#include "parallel/share_region.h"
#include "train/job/build_expert_parallel.h"

namespace accel {
namespace {

/// A parameter's name in its layer; adapters of LoRA belong to the layer.
struct LayerParameter {
  std::string layer;
  std::string_view name;
};

LayerParameter split_layer(const std::string& parameter) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "lora_A.weight", "lora_B.weight", "lora_embedding_A", "lora_embedding_B", "weight", "bias"};
  for (const std::string_view name : kNames) {
    if (!parameter.ends_with("." + std::string(name))) continue;
    return {parameter.substr(0, parameter.size() - name.size() - 1), name};
  }
  return {parameter, ""};
}

/// A cut without its shape.
TensorCut cut_of(const TensorPlanEntry& entry, std::string_view name, bool sequence) {
  const auto rows = [&] { return TensorCut{.placements = {{Axis::kTensor, 0, entry.blocks}}}; };
  const TensorCut partial = {.is_partial = true}, whole = {};
  switch (entry.style) {
    case TensorStyle::kColwise:
      return name == "lora_A.weight" ? partial : rows();
    case TensorStyle::kRowwise:
      if (name == "bias") return sequence ? partial : whole;
      if (name == "lora_B.weight") return partial;
      return {.placements = {{Axis::kTensor, 1}}};
    case TensorStyle::kEmbeddingRowwise:
      if (name == "weight") return rows();
      return sequence ? partial : whole;  // an adapter
    case TensorStyle::kReplicatedWithGradAllReduce:
      return partial;
    case TensorStyle::kSequenceParallel:
      return sequence ? partial : whole;
  }
  throw std::logic_error("unknown style of tensor parallelism");
}

void check_rows(const Parameter& parameter, const TensorCut& cut, int64_t ranks) {
  for (const Placement& placement : cut.placements) {
    const int64_t rows = cut.global.at(static_cast<size_t>(placement.dim)) / placement.blocks;
    const int64_t each = (rows + ranks - 1) / ranks;
    if (each * (ranks - 1) < rows) continue;
    throw Error(ExitCode::kRecipe,
                text("'tp' {} leaves a rank without a share of '{}', which is {}", ranks,
                     parameter.name, to_string(cut.global)),
                "use fewer ranks");
  }
}

/// Rows [first, first + to.size(0)) of a share of `whole`, which has these regions.
void copy_share(const at::Tensor& whole, const std::vector<ShareRegion>& regions, int64_t first,
                const at::Tensor& to) {
  int64_t begin = 0;  // of the region in the share
  for (const ShareRegion& region : regions) {
    const int64_t rows = region.sizes.front();
    const int64_t low = std::max(first, begin);
    const int64_t high = std::min(first + to.size(0), begin + rows);
    const int64_t from = region.offsets.front() + low - begin;
    begin += rows;
    if (low >= high) continue;
    const at::Tensor target = to.narrow(0, low - first, high - low);
    if (target.dim() < 2 || region.sizes[1] == whole.size(1)) {
      copy_rows(whole, from, target);
      continue;
    }
    const at::Tensor all =
        at::empty({high - low, whole.size(1)}, to.options().requires_grad(false));
    copy_rows(whole, from, all);
    target.copy_(all.narrow(1, region.offsets[1], region.sizes[1]));
  }
}

Shape share_shape(const std::vector<ShareRegion>& regions) {
  Shape shape = regions.front().sizes;
  for (size_t i = 1; i < regions.size(); ++i) shape.front() += regions[i].sizes.front();
  return shape;
}

/// Replaces the parameter by its share. Returns the whole tensor if it is deferred.
at::Tensor divide(at::Tensor parameter, const TensorCut& cut, const Mesh& mesh) {
  const at::Tensor whole = parameter.detach();
  const auto regions = share_regions(
      {.name = "", .local = whole, .global = cut.global, .placements = cut.placements}, mesh);
  const at::Tensor share =
      at::empty(share_shape(regions), parameter.options().requires_grad(false));
  const bool deferred = is_deferred(whole);
  write_rows(share, [whole, regions](const at::Tensor& to, int64_t first) {
    copy_share(whole, regions, first, to);
  });
  parameter.set_data(share);
  return deferred ? whole : at::Tensor();
}

TensorPlan plan_of(const Job& job) {
  const auto* model = dynamic_cast<const TensorParallel*>(job.model.get());
  if (!model) {
    throw Error(ExitCode::kRecipe,
                text("'tp' does not support the model '{}', which has no plan for it",
                     job.recipe.model.type),
                "use gpt, llama, vit or a BERT-style model, or leave 'tp' out");
  }
  TensorPlan plan = model->tensor_plan(job.tensor_ranks->size());
  const bool divides = std::ranges::any_of(plan, [](const TensorPlanEntry& entry) {
    return entry.style == TensorStyle::kSequenceParallel;
  });
  if (job.recipe.accelerator.parallelism.sequence_parallel && !divides) {
    throw Error(
        ExitCode::kRecipe,
        text("'sequence_parallel' does not support the model '{}', whose plan has no layers "
             "between which it divides activations",
             job.recipe.model.type),
        "use gpt or llama, or leave 'sequence_parallel' out");
  }
  return plan;
}

}  // namespace

std::map<std::string, TensorCut> tensor_cuts(const std::vector<Parameter>& parameters,
                                             const TensorPlan& plan, int64_t ranks, bool sequence) {
  std::map<std::string, TensorCut> cuts;
  std::set<std::string> used;
  for (const Parameter& item : parameters) {
    const LayerParameter in = split_layer(item.name);
    const auto entry = std::ranges::find_if(
        plan, [&](const TensorPlanEntry& each) { return name_matches(each.layer, in.layer); });
    if (entry == plan.end()) continue;
    used.insert(entry->layer);
    TensorCut cut = cut_of(*entry, in.name, sequence);
    if (cut.placements.empty() && !cut.is_partial) continue;
    cut.global = item.local.sizes().vec();
    check_rows(item, cut, ranks);
    cuts.emplace(item.name, std::move(cut));
  }
  for (const TensorPlanEntry& entry : plan) {
    if (used.contains(entry.layer)) continue;
    throw std::logic_error(text("'{}' of the model's tensor plan matches no layer", entry.layer));
  }
  return cuts;
}

std::vector<at::Tensor> divide_model(Job& job) {
  if (!job.tensor_ranks && !job.expert_ranks) return {};
  const c10::NoGradGuard no_grad;
  const std::vector<Parameter> parameters = parameters_of(*job.model);
  const ParallelismSection& section = job.recipe.accelerator.parallelism;
  if (job.tensor_ranks) {
    job.tensor_cuts = at_place(recipe_place(job.resolved, "accelerator.parallelism.tp"), [&] {
      return tensor_cuts(parameters, plan_of(job), job.tensor_ranks->size(),
                         section.sequence_parallel);
    });
  }
  if (job.expert_ranks) {
    at_place(recipe_place(job.resolved, "accelerator.parallelism.ep"),
             [&] { place_experts(job, parameters); });
  }
  std::vector<at::Tensor> read_later;
  for (const Parameter& item : parameters) {
    const auto cut = job.tensor_cuts.find(item.name);
    if (cut == job.tensor_cuts.end() || cut->second.placements.empty()) continue;
    at::Tensor whole = divide(item.local, cut->second, job.mesh);
    if (!whole.defined()) continue;
    // Ranks or stages of their own then give memory to what they keep.
    if (job.recipe.accelerator.fsdp.stage > 0 || section.pp > 1) {
      read_later.push_back(std::move(whole));
      continue;
    }
    whole.reset();
    materialize(item.local);  // which frees the whole tensor before the next one gets memory
  }
  return read_later;
}

void place_tensors(const Job& job, std::vector<Parameter>& parameters) {
  for (Parameter& item : parameters) {
    const auto cut = job.tensor_cuts.find(item.name);
    if (cut == job.tensor_cuts.end() || cut->second.placements.empty()) continue;
    item.global = cut->second.global;
    item.placements = cut->second.placements;
  }
}

}  // namespace accel
