#include "infer/trained_model.h"

#include <optional>
#include <set>
#include <string>

#include "checkpoint/reader.h"
#include "checkpoint/tensors.h"
#include "core/api/callback.h"
#include "core/base/text.h"
#include "kernels/memory/skip_init.h"
#include "models/hf/hf_family.h"
#include "models/hf/map_hf_weights.h"
#include "models/layers/module_state.h"
#include "train/job/build_streaming.h"
#include "train/job/data_schema.h"
#include "train/job/job.h"
#include "train/job/torch_setup.h"
#include "train/loop/run_state.h"
#include "train/recipe/saved_recipe.h"

namespace accel {
namespace {

/// The recipe without the folder of initial weights, whose options it has already.
Node without_start(Node recipe) {
  Node::Entry* model = recipe.find("model");
  const Node::Entry* type = model ? model->node.find("type") : nullptr;
  if (!type || !type->node.scalar() || !HfFamily::of_component(type->node.scalar()->text)) {
    return recipe;
  }
  std::erase_if(*model->node.map(),
                [](const Node::Entry& entry) { return entry.key == "weights"; });
  return recipe;
}

/// The parameters that the checkpoint has.
std::vector<Parameter> those_in(const std::vector<Parameter>& weights,
                                std::vector<Parameter> parameters) {
  std::set<std::string> names;
  for (const Parameter& item : weights) names.insert(item.name);
  std::erase_if(parameters, [&](const Parameter& item) { return !names.contains(item.name); });
  return parameters;
}

/// Whether a tensor belongs to a model of the task, by its name's prefix.
bool is_of_task(const Parameter& item) {
  return item.name.find('/') != item.name.npos;
}

DataShape data_of(const TrainState& state) {
  const auto part = state.sections.find(kDataSection);
  if (part == state.sections.end()) return shape_of_text("");
  const auto text = part->second.texts.find(kDataShape);
  return shape_of_text(text == part->second.texts.end() ? "" : text->second);
}

std::string fitted_of(const TrainState& state) {
  const auto part = state.sections.find(kDataSection);
  if (part == state.sections.end()) return {};
  const auto text = part->second.texts.find(kFittedValues);
  return text == part->second.texts.end() ? "" : text->second;
}

constexpr auto kEma = "ema";

/// The weights that an evaluation uses where a callback `ema` has their average: the average's
/// tensors, as views of the checkpoint's files. Throws CheckpointError where a floating-point
/// parameter has none.
std::vector<Parameter> with_averages(const TrainState& state, const TrainedModel& trained,
                                     const std::vector<Parameter>& parameters,
                                     std::vector<Parameter> weights) {
  std::set<std::string> averaged;
  for (const Parameter& item : parameters) {
    if (at::isFloatingType(item.local.scalar_type())) averaged.insert(item.name);
  }
  const auto& callbacks = trained.recipe.callbacks;
  for (size_t i = 0; i < callbacks.size(); ++i) {
    const auto part = state.sections.find(callback_section(callbacks, i));
    if (callbacks[i].type != kEma || part == state.sections.end()) continue;
    for (Parameter& item : weights) {
      if (!averaged.contains(item.name)) continue;
      const auto average = part->second.tensors.find(item.name);
      if (average == part->second.tensors.end() || average->second.sizes() != item.local.sizes()) {
        throw CheckpointError(
            text("the state of 'ema' has no '{}' that fits the model", item.name));
      }
      item.local = average->second;
    }
  }
  return weights;
}

/// Swaps in the weights of other callbacks than `ema`.
void put_evaluated_weights(const TrainState& state, const std::vector<Parameter>& parameters,
                           const std::vector<Parameter>& buffers, TrainedModel& to) {
  for (size_t i = 0; i < to.recipe.callbacks.size(); ++i) {
    const auto part = state.sections.find(callback_section(to.recipe.callbacks, i));
    if (part == state.sections.end() || part->second.tensors.empty()) continue;
    if (to.recipe.callbacks[i].type == kEma) continue;
    const auto callback = build(to.recipe.callbacks[i], CallbackContext{parameters, buffers, {}});
    callback->load(part->second);
    callback->before_eval();
  }
}

void check_plugins(const TrainState& state, const std::vector<PluginIdentity>& plugins) {
  for (const auto& [name, found] : plugin_provenance(plugins)) {
    const auto then = state.provenance.find(name);
    if (then == state.provenance.end() || then->second == found) continue;
    throw CheckpointError(text("the plugin '{}' is {}; the checkpoint was made with {}",
                               name.substr(kPluginKey.size()), found, then->second),
                          "restore the old file");
  }
}

/// The model without its trained weights. The models of plugins may keep random numbers of their
/// initialization, which have the recipe's seed; others are not initialized.
std::unique_ptr<Model> built_model(const TrainedModel& trained, bool needs_folder) {
  std::optional<MapHfWeights> mapped;
  if (needs_folder) mapped.emplace();
  seed_generator(static_cast<uint64_t>(trained.recipe.seed));
  std::optional<SkipInit> skip;
  if (trained.recipe.plugin_identities.empty()) skip.emplace();
  return build(trained.recipe.model, ModelContext{trained.data});
}

}  // namespace

TrainedModel load_trained(Files& files, const std::string& folder, const RegistryOf& registry_of) {
  if (!has_manifest(files, folder)) {
    throw CheckpointError(
        text("'{}' is no checkpoint of accel-run: it has no accel_run.json", folder),
        "give a run folder or one of its checkpoints");
  }
  const TrainState state = read_checkpoint(files, folder, {.without_optimizer = true});
  TrainedModel out;
  out.folder = folder;
  out.step = state.progress.step;
  out.data = data_of(state);
  out.fitted_values = fitted_of(state);
  const auto fingerprint = state.provenance.find("data");
  if (fingerprint != state.provenance.end()) out.data_fingerprint = fingerprint->second;
  out.world = static_cast<int64_t>(state.other_rngs.size()) + 1;
  const Node saved = parse_recipe("checkpoint.yaml", state.recipe);
  std::vector<PluginIdentity> plugins;
  out.registry = registry_of(saved, plugins);
  const Node current = with_current_names(saved, *out.registry);
  const bool needs_folder = keeps_frozen_in_folder(current);
  const Node tree = needs_folder ? current : without_start(current);
  check_plugins(state, plugins);
  Diagnostics problems;
  Reading reading{problems, *out.registry};
  out.recipe = read_recipe(tree, "checkpoint", reading);
  out.recipe.plugin_identities = std::move(plugins);
  out.resolved = resolve_recipe(out.recipe, tree);
  set_up_torch(out.recipe, 1);
  out.model = built_model(out, needs_folder);
  const std::vector<Parameter> parameters = parameters_of(*out.model);
  const std::vector<Parameter> buffers = buffers_of(*out.model);
  std::vector<Parameter> weights;
  for (const Parameter& item : state.model) {
    (is_of_task(item) ? out.task_weights : weights).push_back(item);
  }
  adopt_weights(needs_folder ? those_in(weights, parameters) : parameters, buffers,
                with_averages(state, out, parameters, weights));
  put_evaluated_weights(state, parameters, buffers, out);
  set_training(*out.model, false);
  return out;
}

void load_task_models(Job& job, const std::vector<Parameter>& task_weights) {
  std::vector<Parameter> parameters, buffers;
  const auto add = [](const TaskModel& item, const std::vector<Parameter>& from,
                      std::vector<Parameter>& to) {
    for (const Parameter& named : from) to.push_back({item.name + "/" + named.name, named.local});
  };
  for (const TaskModel& item : job.task_models) {
    set_training(*item.model, false);
    if (!item.in_checkpoints) continue;
    add(item, parameters_of(*item.model), parameters);
    add(item, buffers_of(*item.model), buffers);
  }
  copy_weights(parameters, buffers, task_weights);
}

}  // namespace accel
