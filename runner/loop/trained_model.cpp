#include "runner/loop/trained_model.h"

#include <algorithm>

#include "core/callback.h"
#include "models/hf_family.h"
#include "models/module_state.h"
#include "runner/checkpoint/reader.h"
#include "runner/job/data_facts.h"
#include "runner/job/job.h"
#include "runner/loop/run_state.h"

namespace accel {
namespace {

/// The recipe without the folder that the model started from, whose sizes it has by now.
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

/// Whether a model of the task's has it: its name begins with the model's.
bool is_of_task(const NamedTensor& item) {
  return item.name.find('/') != item.name.npos;
}

DataShape data_of(const TrainState& state) {
  const auto part = state.parts.find(kDataPart);
  if (part == state.parts.end()) return shape_of_text("");
  const auto text = part->second.texts.find(kDataShape);
  return shape_of_text(text == part->second.texts.end() ? "" : text->second);
}

/// Lets callbacks that keep weights of their own put in what they want evaluated.
void put_evaluated_weights(const TrainState& state, const std::vector<NamedTensor>& parameters,
                           const std::vector<NamedTensor>& buffers, TrainedModel& to) {
  for (size_t i = 0; i < to.recipe.callbacks.size(); ++i) {
    const auto part = state.parts.find(callback_part(to.recipe.callbacks, i));
    if (part == state.parts.end() || part->second.tensors.empty()) continue;
    const auto callback = build(to.recipe.callbacks[i], CallbackContext{parameters, buffers, {}});
    callback->load(part->second);
    callback->before_eval();
  }
}

void check_plugins(const TrainState& state, const std::vector<PluginIdentity>& plugins) {
  for (const auto& [name, text] : plugin_facts(plugins)) {
    const auto then = state.facts.find(name);
    if (then == state.facts.end() || then->second == text) continue;
    throw CheckpointError("the plugin '" + name.substr(kPluginFact.size()) + "' is " + text +
                              "; the checkpoint was made with " + then->second,
                          "put the file back that the run had");
  }
}

}  // namespace

TrainedModel load_trained(Files& files, const std::string& folder, const RegistryOf& registry_of) {
  if (!has_manifest(files, folder)) {
    throw CheckpointError(
        "'" + folder + "' is no checkpoint of accel-run's: it has no accel_run.json",
        "give a run folder or one of its checkpoints");
  }
  const TrainState state = read_checkpoint(files, folder);
  TrainedModel out;
  out.folder = folder;
  out.step = state.progress.step;
  out.data = data_of(state);
  out.world = static_cast<int64_t>(state.other_rngs.size()) + 1;
  const Node tree = without_start(parse_recipe("checkpoint.yaml", state.recipe));
  std::vector<PluginIdentity> plugins;
  out.registry = registry_of(tree, plugins);
  check_plugins(state, plugins);
  Diagnostics problems;
  Reading reading{problems, *out.registry};
  out.recipe = read_recipe(tree, "checkpoint", reading);
  out.recipe.plugin_identities = std::move(plugins);
  out.resolved = resolve_recipe(out.recipe, tree);
  out.model = build(out.recipe.model, ModelContext{out.data});
  const std::vector<NamedTensor> parameters = parameters_of(*out.model);
  const std::vector<NamedTensor> buffers = buffers_of(*out.model);
  std::vector<NamedTensor> weights;
  for (const NamedTensor& item : state.model) {
    (is_of_task(item) ? out.task_weights : weights).push_back(item);
  }
  copy_weights(parameters, buffers, weights);
  put_evaluated_weights(state, parameters, buffers, out);
  set_training(*out.model, false);
  return out;
}

void load_task_models(Job& job, const std::vector<NamedTensor>& task_weights) {
  std::vector<NamedTensor> parameters, buffers;
  const auto add = [](const TaskModel& item, std::vector<NamedTensor> from,
                      std::vector<NamedTensor>& to) {
    for (NamedTensor& named : from) to.push_back({item.name + "/" + named.name, named.tensor});
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
