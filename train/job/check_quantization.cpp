#include "train/job/check_quantization.h"

#include <string>

#include "core/base/text.h"
#include "models/lora/lora.h"
#include "models/quantized/quantize_model.h"
#include "parallel/mesh.h"
#include "train/job/job.h"

namespace accel {
namespace {

/// The `quantization` of a model among resolved options; null without a quantized model.
const Node::Entry* quantization_entry(const Node& node) {
  if (!node.map()) return nullptr;
  for (const Node::Entry& entry : *node.map()) {
    const Node::Entry* found = quantization_entry(entry.node);
    if (found) return found;
    if (entry.key != "quantization" || !entry.node.map()) continue;
    const Node::Entry* type = entry.node.find("type");
    if (type && type->node.scalar() && type->node.scalar()->text != "none") return &entry;
  }
  return nullptr;
}

/// The option that divides weights or their optimizer state over ranks; null without one.
const char* dividing_option(const RecipeOptions& recipe, const MeshSizes& sizes) {
  if (recipe.accelerator.fsdp.stage > 0) return "fsdp";
  if (sizes.tensor > 1) return "tp";
  if (sizes.pipeline > 1) return "pp";
  return sizes.expert > 1 ? "ep" : nullptr;
}

}  // namespace

void check_quantization(const RecipeOptions& recipe, const MeshSizes& sizes) {
  const char* const option = dividing_option(recipe, sizes);
  if (!option) return;
  const Node::Entry* found = quantization_entry(recipe.model.resolved);
  if (!found) found = quantization_entry(recipe.task.resolved);
  if (!found) return;
  throw RecipeError({{found->where, text("'{}' does not support quantized weights", option),
                      text("leave '{}' out: with DDP each rank has the whole quantized model, and "
                           "only adapters have gradients and optimizer state",
                           option)}});
}

void check_trains_adapter(const Job& job) {
  if (!has_quantized_weights(*job.model) || has_adapter_switch(*job.model)) return;
  const Node& model = job.recipe.model.resolved;
  const Node::Entry* found = model.find("quantization");
  throw RecipeError({{found ? found->where : model.where,
                      "quantized weights are frozen, and there is no adapter to train",
                      "add 'lora: {rank: 8}', or name a folder with unquantized weights"}});
}

}  // namespace accel
