#include "train/job/build_streaming.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "kernels/memory/deferred_init.h"
#include "models/hf/hf_config.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/module_state.h"
#include "models/placement/frozen_stream.h"
#include "models/placement/streamed_unit.h"
#include "models/placement/weight_file.h"
#include "models/quantized/frozen_weight.h"
#include "models/quantized/quantization_options.h"

namespace accel {
namespace {

constexpr auto kMaxMemory = "accelerator.max_memory";

[[noreturn]] void refuse_limit(const Node& resolved, const std::string& message, std::string hint) {
  throw RecipeError({{recipe_place(resolved, kMaxMemory), message, std::move(hint)}});
}

/// The text of an option of a section; "" without it.
std::string option_text(const Node& of, const char* section, const char* key) {
  const Node::Entry* entry = of.find(section);
  if (entry && key) entry = entry->node.map() ? entry->node.find(key) : nullptr;
  return entry && entry->node.scalar() ? entry->node.scalar()->text : "";
}

std::string mib_text(int64_t bytes) {
  std::array<char, 32> out;
  std::snprintf(out.data(), out.size(), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return out.data();
}

/// The option that divides weights or activations over ranks; null without one.
const char* option_against_streaming(const RecipeOptions& recipe, const MeshSizes& sizes) {
  if (recipe.accelerator.fsdp.stage > 0) return "fsdp";
  if (sizes.tensor > 1) return "tp";
  if (sizes.pipeline > 1) return "pp";
  if (sizes.expert > 1) return "ep";
  return sizes.context > 1 ? "cp" : nullptr;
}

/// Whether the folder's weights are quantized already.
bool is_quantized_folder(const std::string& folder) {
  HfConfig config(folder);
  return quantization_in(config).is_on();
}

/// Throws for models without frozen weights in a folder.
void check_frozen_model(const RecipeOptions& recipe, const Node& resolved) {
  const Node& model = recipe.model.resolved;
  const std::string rank = option_text(model, "lora", "rank");
  if (rank.empty() || rank == "0") {
    refuse_limit(
        resolved, "'max_memory' streams frozen weights, and the model has no LoRA adapter",
        "add 'model.lora: {rank: 8}', or use 'accelerator.fsdp: {stage: 3, offload: disk}'");
  }
  const std::string folder = option_text(model, "weights", nullptr);
  if (folder.empty()) {
    refuse_limit(resolved,
                 "'max_memory' streams weights from a folder, and 'model.weights' names none",
                 "name a Hugging Face folder");
  }
  const std::string bits = option_text(model, "quantization", "type");
  if (!bits.empty() && bits != "none" && !is_quantized_folder(folder)) {
    refuse_limit(resolved,
                 "'max_memory' streams weights as 'model.weights' has them, and 'quantization' "
                 "would quantize them in memory",
                 "quantize the folder with transformers and bitsandbytes first: from_pretrained() "
                 "with a 'quantization_config', then save_pretrained()");
  }
  const std::string init = option_text(model, "lora", "init");
  if (init == "pissa" || init == "olora") {
    refuse_limit(
        resolved,
        text("'max_memory' does not support 'lora.init: {}', which changes frozen weights", init),
        "write 'init: default'");
  }
}

std::vector<Parameter> frozen_of(const std::vector<Parameter>& parameters) {
  std::vector<Parameter> out;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(out),
               [](const Parameter& item) { return !item.local.requires_grad(); });
  return out;
}

int64_t bytes_of(const std::vector<Parameter>& weights) {
  int64_t sum = 0;
  for (const Parameter& item : weights) sum += static_cast<int64_t>(item.local.nbytes());
  return sum;
}

/// The bytes of a weight in the mapped file; nothing where it is small and in memory.
std::optional<MappedRange> range_of(const Job& job, const Parameter& item) {
  const at::Tensor& tensor = item.local;
  try {
    return mapped_ranges(
               {{static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}})
        .front();
  } catch (const std::invalid_argument&) {
    if (tensor.nbytes() < kLeastDeferredBytes) return std::nullopt;
  }
  refuse_limit(job.resolved,
               text("'{}' cannot be streamed from the folder of 'model.weights': its layout in the "
                    "file is not the model's",
                    item.name),
               "save the weights as model.safetensors, with save_pretrained()");
}

/// Whether it is codes in 4 bits or scales, which are flat.
bool is_quantized(const Parameter& item) {
  return item.local.scalar_type() == at::kByte || is_scale_name(item.name);
}

void copy_to_memory(const at::Tensor& tensor) {
  tensor.set_data(tensor.detach().clone());
}

/// The streamed part of a block; nothing of one without frozen weights in the file. Vectors beside
/// converted weights stay in memory: they are small, and in the file among the converted ones.
std::optional<StreamedUnit> unit_of(const Job& job, const BlockParameters& block) {
  StreamedUnit unit{block.block, {}, {}};
  const std::vector<Parameter> frozen = frozen_of(block.parameters);
  for (const Parameter& item : frozen) {
    if (is_deferred(item.local)) unit.converted.push_back(item.local);
  }
  std::vector<std::span<const std::byte>> bytes;
  for (const Parameter& item : frozen) {
    if (is_deferred(item.local)) continue;
    const std::optional<MappedRange> range = range_of(job, item);
    if (!range) continue;
    if (!unit.converted.empty() && item.local.dim() < 2 && !is_quantized(item)) {
      copy_to_memory(item.local);
      continue;
    }
    bytes.push_back(range->bytes);
    unit.weights.push_back(item.local);
  }
  if (!bytes.empty()) unit.ranges = mapped_ranges(std::move(bytes));
  if (unit.weights.empty() && unit.converted.empty()) return std::nullopt;
  return unit;
}

/// Mapped files cannot be written.
void move_trained_to_memory(Model& model) {
  const c10::NoGradGuard no_grad;
  std::vector<Parameter> written = parameters_of(model);
  std::erase_if(written, [](const Parameter& item) { return !item.local.requires_grad(); });
  for (Parameter& buffer : buffers_of(model)) written.push_back(std::move(buffer));
  for (Parameter& item : written) {
    if (!is_deferred(item.local)) copy_to_memory(item.local);
  }
}

int64_t limit_of(const Job& job) {
  return job.recipe.accelerator.max_memory->bytes;
}

/// The bytes of a block's weights with the rest of their first and last block of the file: folders
/// have the weights of each type together.
int64_t slot_bytes_of(const std::vector<Parameter>& weights) {
  const int64_t bytes = bytes_of(weights) + table_bytes_between(weights);
  std::set<at::ScalarType> types;
  for (const Parameter& item : weights) types.insert(item.local.scalar_type());
  const auto ranges = static_cast<int64_t>(types.size());
  return (bytes / WeightFile::kBlock + 2 * ranges) * WeightFile::kBlock;
}

/// The frozen weights of a block that are in the folder's files as tensors.
std::vector<Parameter> streamed_of(const BlockParameters& block) {
  std::vector<Parameter> out = frozen_of(block.parameters);
  std::erase_if(out, [](const Parameter& item) { return is_state_name(item.name); });
  return out;
}

}  // namespace

bool keeps_frozen_in_folder(const RecipeOptions& recipe) {
  return recipe.accelerator.max_memory.has_value();
}

bool keeps_frozen_in_folder(const Node& recipe) {
  const std::string limit = option_text(recipe, "accelerator", "max_memory");
  return !limit.empty() && limit != "none";
}

void check_streaming(const RecipeOptions& recipe, const Node& resolved, const MeshSizes& sizes) {
  if (!keeps_frozen_in_folder(recipe)) return;
  if (const char* const option = option_against_streaming(recipe, sizes)) {
    refuse_limit(
        resolved, text("'max_memory' does not support '{}'", option),
        text("leave '{}' out, or 'max_memory': 'fsdp.offload: disk' streams what 'fsdp' divides",
             option));
  }
  if (recipe.accelerator.mixed_precision == MixedPrecision::kFp8) {
    refuse_limit(resolved, "'max_memory' does not support 'mixed_precision: fp8'", "train in bf16");
  }
  check_frozen_model(recipe, resolved);
}

FrozenMemory frozen_memory(const Job& job) {
  FrozenMemory out;
  if (!keeps_frozen_in_folder(job.recipe)) return out;
  int64_t largest = 0;
  for (const BlockParameters& block : blocks_of(*job.model)) {
    const std::vector<Parameter> weights = streamed_of(block);
    if (weights.empty()) continue;
    ++out.blocks;
    out.block_bytes += bytes_of(weights);
    largest = std::max(largest, slot_bytes_of(weights));
  }
  const std::vector<Parameter> frozen = frozen_of(parameters_of(*job.model));
  for (const Parameter& item : frozen) out.elements += item.numel();
  out.other_bytes = bytes_of(frozen) - out.block_bytes;
  out.slots = out.blocks;
  out.resident_bytes = out.block_bytes + out.other_bytes;
  if (out.resident_bytes <= limit_of(job)) return out;
  const int64_t room = limit_of(job) - out.other_bytes;
  if (room < 2 * largest) {
    const int64_t least = out.other_bytes + 2 * largest;
    refuse_limit(job.resolved,
                 text("'max_memory' leaves {} for streamed blocks, and two of them have {}",
                      mib_text(std::max<int64_t>(room, 0)), mib_text(2 * largest)),
                 text("allow at least {} KiB", (least + 1023) / 1024));
  }
  out.slots = std::min(room / largest, out.blocks);
  out.resident_bytes = out.other_bytes + out.slots * largest;
  return out;
}

void build_frozen_stream(Job& job, bool is_estimate) {
  if (!keeps_frozen_in_folder(job.recipe)) return;
  if (!job.device.is_cpu()) {
    refuse_limit(job.resolved,
                 "'max_memory' streams weights to the memory of the CPU, not to a GPU",
                 "set 'accelerator.device: cpu', or leave 'max_memory' out");
  }
  const FrozenMemory memory = frozen_memory(job);
  if (is_estimate) return;
  move_trained_to_memory(*job.model);
  if (!memory.is_streamed()) return;
  const c10::NoGradGuard no_grad;
  std::vector<StreamedUnit> units;
  for (const BlockParameters& block : blocks_of(*job.model)) {
    if (std::optional<StreamedUnit> unit = unit_of(job, block)) units.push_back(std::move(*unit));
  }
  job.frozen_stream =
      std::make_shared<FrozenStream>(std::move(units), limit_of(job) - memory.other_bytes);
}

void recompute_streamed(const Job& job, const std::shared_ptr<BlockInputs>& inputs) {
  if (!frozen_memory(job).is_streamed()) return;
  if (job.recipe.train.activation_checkpointing == ActivationCheckpointing::kNone) {
    checkpoint_blocks(*job.model, inputs);
  }
  if (job.frozen_stream) job.frozen_stream->follow_recomputation(inputs);
}

std::string streaming_summary(const Job& job) {
  const FrozenMemory memory = frozen_memory(job);
  if (memory.blocks == 0) return "";
  if (!memory.is_streamed()) {
    return "no block: " + mib_text(memory.resident_bytes) + " of frozen weights fit in memory";
  }
  return text("{} blocks of {} from '{}', {} of them in memory; {} of other frozen weights",
              memory.blocks, mib_text(memory.block_bytes),
              option_text(job.recipe.model.resolved, "weights", nullptr), memory.slots,
              mib_text(memory.other_bytes));
}

}  // namespace accel
