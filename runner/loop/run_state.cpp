#include "runner/loop/run_state.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/error.h"
#include "core/log.h"
#include "core/sample_rng.h"
#include "runner/job/build_strategy.h"
#include "runner/job/data_facts.h"
#include "runner/job/device.h"
#include "runner/job/torch_setup.h"
#include "runner/loop/rank_states.h"

namespace accel {
namespace {

constexpr auto kTrackerPart = "trackers/";

const StateDict& part_of(const TrainState& state, const std::string& name) {
  const auto found = state.parts.find(name);
  if (found == state.parts.end()) {
    throw CheckpointError("the checkpoint holds no '" + name + "'",
                          "it was made by another version or another recipe");
  }
  return found->second;
}

bool is_empty(const StateDict& state) {
  return state.numbers.empty() && state.texts.empty() && state.tensors.empty();
}

StateDict run_part(const RunState& run) {
  StateDict part;
  part.numbers = {{"updates", static_cast<double>(run.updates)},
                  {"seconds", run.seconds},
                  {"last_loss", run.last_loss},
                  {"evaluated_step", static_cast<double>(run.evaluated_step)},
                  {"eval_pending", run.eval_pending ? 1.0 : 0.0},
                  {"best_step", static_cast<double>(run.best_step)}};
  if (run.best) part.numbers["best"] = *run.best;
  for (const auto& [name, value] : run.evaluation) part.numbers["evaluation/" + name] = value;
  return part;
}

RunState run_of(const TrainState& state) {
  RunState run;
  run.progress = state.progress;
  for (const auto& [name, value] : part_of(state, kRunPart).numbers) {
    if (name == "updates") run.updates = static_cast<int64_t>(value);
    if (name == "seconds") run.seconds = value;
    if (name == "last_loss") run.last_loss = value;
    if (name == "evaluated_step") run.evaluated_step = static_cast<int64_t>(value);
    if (name == "eval_pending") run.eval_pending = value != 0;
    if (name == "best_step") run.best_step = static_cast<int64_t>(value);
    if (name == "best") run.best = value;
    if (name.starts_with("evaluation/")) run.evaluation[name.substr(11)] = value;
  }
  return run;
}

void set_hyper(OptimizerState::Group& group, const std::string& key, double value) {
  for (auto& [name, present] : group.hyper) {
    if (name != key) continue;
    present = value;
    return;
  }
  group.hyper.emplace_back(key, value);
}

/// What a scheduler of Python's leaves: the next update's rate in the groups, where it trusts what
/// it finds.
void capture_rates(const Job& job, int64_t updates, TrainState& state) {
  state.updates = updates;
  for (size_t i = 0; i < state.base_lrs.size(); ++i) {
    const double base = state.base_lrs[i];
    state.lrs.push_back(job.schedule->lr(base, updates));
    set_hyper(state.optimizer.groups[i], "lr", state.lrs[i]);
    for (const auto& [key, rate] : job.schedule->group_rates(base)) {
      set_hyper(state.optimizer.groups[i], key, rate);
    }
  }
  state.curves = job.schedule->milestones();
  if (state.curves.empty()) return;
  state.curves.insert(state.curves.begin(), 0);
  state.curves.push_back(std::max(state.curves.back() + 1, job.length.total_steps));
}

/// As restore_generator().
void restore_device_generator(const Job& job, const TrainState& saved) {
  const auto rank = static_cast<size_t>(job.group->rank());
  const auto device = static_cast<int64_t>(job.device.index());
  if (rank >= saved.device_rngs.size() || device >= saved.device_rngs[rank].size(0)) {
    SampleRng rng(static_cast<uint64_t>(job.recipe.seed),
                  static_cast<uint64_t>(saved.progress.step), rank);
    return seed_device_generator(job.device, rng.next());
  }
  try {
    set_device_generator_state(job.device, saved.device_rngs[rank][device].clone());
  } catch (const std::exception&) {
    throw CheckpointError("the checkpoint's random state is none of this kind of GPU");
  }
}

/// Each rank's own; one that the checkpoint does not know gets a new stream.
void restore_generator(const Job& job, const TrainState& saved) {
  const int64_t rank = job.group->rank();
  if (rank > static_cast<int64_t>(saved.other_rngs.size())) {
    return seed_rank(job, saved.progress.step);
  }
  const at::Tensor& state = rank == 0 ? saved.rng : saved.other_rngs[static_cast<size_t>(rank) - 1];
  try {
    set_generator_state(state);
  } catch (const std::exception&) {
    throw CheckpointError("the checkpoint's random state is none of PyTorch's CPU generator");
  }
}

}  // namespace

std::string callback_part(const std::vector<Ref<Callback>>& callbacks, size_t index) {
  const std::string& type = callbacks[index].type;
  int count = 1;
  for (size_t i = 0; i < index; ++i) count += callbacks[i].type == type;
  return "callbacks/" + type + (count > 1 ? "." + std::to_string(count) : "");
}

void copy_weights(const std::vector<NamedTensor>& parameters,
                  const std::vector<NamedTensor>& buffers, const std::vector<NamedTensor>& from) {
  std::map<std::string, at::Tensor> saved;
  for (const NamedTensor& item : from) saved[item.name] = item.tensor;
  const c10::NoGradGuard no_grad;
  for (const auto* list : {&parameters, &buffers}) {
    for (const NamedTensor& item : *list) {
      const auto found = saved.find(item.name);
      if (found == saved.end()) {
        throw CheckpointError("the checkpoint's model has no '" + item.name + "'");
      }
      if (found->second.sizes() != item.tensor.sizes()) {
        throw CheckpointError("'" + item.name + "' is " + to_string(item.tensor.sizes().vec()) +
                              " in the model but " + to_string(found->second.sizes().vec()) +
                              " in the checkpoint");
      }
      item.tensor.copy_(found->second);
      saved.erase(found);
    }
  }
  if (!saved.empty()) {
    throw CheckpointError("the checkpoint's model has '" + saved.begin()->first +
                          "', which this model has not");
  }
}

std::string tied_head(const Job& job) {
  auto* model = dynamic_cast<LanguageModel*>(job.model.get());
  if (!model) return {};
  const at::Tensor head = model->head_weight();
  for (const NamedTensor& item : job.parameters) {
    if (item.tensor.is_same(head)) return item.name;
  }
  return {};
}

std::map<std::string, std::string> run_facts(const Job& job) {
  std::map<std::string, std::string> facts = environment_facts();
  facts["device"] = device_text(job.device);
  if (job.recipe.accelerator.reduction == Reduction::kBucketed) {
    facts["ranks"] = std::to_string(job.group->world());
  }
  return facts;
}

std::map<std::string, std::string> plugin_facts(const std::vector<PluginIdentity>& plugins) {
  std::map<std::string, std::string> facts;
  for (const PluginIdentity& plugin : plugins) {
    facts[kPluginFact + plugin.name] = plugin.version + ", sha256 " + plugin.sha256;
  }
  return facts;
}

TrainState capture(const Job& job, const RunState& run, const TrackerIds& trackers) {
  TrainState state;
  state.progress = run.progress;
  state.seed = static_cast<uint64_t>(job.recipe.seed);
  state.model = job.parameters;
  state.model.insert(state.model.end(), job.buffers.begin(), job.buffers.end());
  state.optimizer = job.optimizer->state();
  state.base_lrs = job.optimizer->base_lrs();
  for (const TrainedPart& part : job.trained) {
    state.optimizers.push_back(part.optimizer->base_lrs().size());
  }
  capture_rates(job, run.updates, state);
  job.schedule->save(state.schedule);
  StateDict scaler;
  job.precision->save(scaler);
  if (!scaler.numbers.empty()) state.scaler = std::move(scaler);
  state.rng = generator_state();
  if (!job.device.is_cpu()) state.device_rngs = {device_generator_states(job.device.type())};
  state.parts[kRunPart] = run_part(run);
  state.parts[kDataPart].texts[kDataShape] = shape_text(job.data);
  for (size_t i = 0; i < job.callbacks.size(); ++i) {
    job.callbacks[i]->save(state.parts[callback_part(job.recipe.callbacks, i)]);
  }
  StateDict task = job.task->state();
  if (!is_empty(task)) state.parts[kTaskPart] = std::move(task);
  for (const auto& [name, ids] : trackers) state.parts[kTrackerPart + name].texts = ids;
  state.facts = run_facts(job);
  state.facts.merge(plugin_facts(job.recipe.plugin_identities));
  state.facts["data"] = job.data_fingerprint;
  if (!job.weights_fingerprint.empty()) state.facts["weights"] = job.weights_fingerprint;
  if (run.evaluated_step == run.progress.step) state.metrics = run.evaluation;
  state.recipe = to_yaml(job.resolved);
  return state;
}

RunState restore(Job& job, const TrainState& state) {
  copy_weights(job.parameters, job.buffers, state.model);
  job.optimizer->load(state.optimizer);
  job.schedule->load(state.schedule);
  if (state.scaler) job.precision->load(*state.scaler);
  for (size_t i = 0; i < job.callbacks.size(); ++i) {
    job.callbacks[i]->load(part_of(state, callback_part(job.recipe.callbacks, i)));
  }
  if (state.parts.contains(kTaskPart) || !is_empty(job.task->state())) {
    job.task->load(part_of(state, kTaskPart));
  }
  job.train_loader->seek(state.progress.epoch, state.progress.step_in_epoch);
  if (!restore_rank_state(job, state)) {
    say("what the checkpoint's ranks had each of their own is not used: there were others");
  }
  restore_generator(job, state);
  if (!job.device.is_cpu()) restore_device_generator(job, state);
  return run_of(state);
}

std::vector<std::string> tracker_names(const std::vector<Ref<Tracker>>& trackers) {
  std::map<std::string, int> count;
  std::vector<std::string> names;
  for (const Ref<Tracker>& ref : trackers) {
    const int number = ++count[ref.type];
    names.push_back(ref.type + (number > 1 ? "." + std::to_string(number) : ""));
  }
  return names;
}

std::map<std::string, std::string> tracker_ids(const TrainState& state, const std::string& name) {
  const auto found = state.parts.find(kTrackerPart + name);
  return found == state.parts.end() ? std::map<std::string, std::string>{} : found->second.texts;
}

}  // namespace accel
