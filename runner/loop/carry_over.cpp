#include "runner/loop/carry_over.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/scalar.h"
#include "runner/checkpoint/layout.h"
#include "runner/job/recipe_diff.h"
#include "runner/job/torch_setup.h"
#include "runner/loop/run_state.h"
#include "runner/loop/schedule_match.h"

namespace accel {
namespace {

/// The name that models of the Python world give a head that is tied to the token embedding.
constexpr auto kTiedHead = "lm_head.weight";

bool has(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::string quoted(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
  return out;
}

/// What a run cannot do without, unless it is told to.
void check_files(const Job& job, const std::string& folder, const TrainState& state,
                 const std::vector<std::string>& allowed) {
  const auto& absent = state.accelerate->absent;
  const bool scales = job.recipe.accelerator.mixed_precision == MixedPrecision::kFp16;
  std::vector<std::string> lacking;
  std::string consent;
  const auto want = [&](const char* file, bool there) {
    if (there || has(allowed, file)) return;
    lacking.emplace_back(file);
    consent += std::string(" --allow ") + file;
  };
  want(kOptimizerFile, !has(absent, kOptimizerFile));
  want(kRandomStatesFile, state.rng.defined());
  if (scales) want(kScalerFile, state.scaler.has_value());
  if (lacking.empty()) return;
  throw CheckpointError("'" + folder + "' has no " + quoted(lacking) + " to go on from",
                        "to start afresh what is in there add" + consent);
}

/// All that tells Adam from AdamW.
constexpr auto kAdamKind = "decoupled_weight_decay";

/// Keys that say how an update is computed and not what it is, and those that schedulers add.
bool is_bookkeeping(const std::string& key) {
  constexpr std::array kKeys = {"lr",           "initial_lr",    "max_lr",  "min_lr",
                                "max_momentum", "fused",         "foreach", "base_momentum",
                                "capturable",   "differentiable"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

/// Keys that older versions of PyTorch do not write.
bool is_recent(const std::string& key) {
  return key == "maximize" || key == kAdamKind;
}

using Hyper = std::vector<std::pair<std::string, HyperValue>>;

const HyperValue* value_in(const Hyper& hyper, const std::string& key) {
  for (const auto& [name, value] : hyper) {
    if (name == key) return &value;
  }
  return nullptr;
}

/// As flat text, whole and floating numbers alike.
std::string text_of(const HyperValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value)) return show_number(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const auto* list = std::get_if<std::vector<double>>(&value);
  if (!list) return "none";
  std::string out;
  for (const double number : *list) out += (out.empty() ? "" : ", ") + show_number(number);
  return "[" + out + "]";
}

/// The keys of `hyper` that `other` has not.
std::vector<std::string> keys_beyond(const Hyper& hyper, const Hyper& other, bool recent) {
  std::vector<std::string> out;
  for (const auto& [key, value] : hyper) {
    const bool counts = !is_bookkeeping(key) && (recent || !is_recent(key));
    if (counts && !value_in(other, key)) out.push_back(key);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// What None stands for: Muon's rule for shapes, and in Adafactor's pair the precision of float32.
HyperValue without_none(const std::string& key, HyperValue value) {
  if (key == "adjust_lr_fn" && std::holds_alternative<std::monostate>(value))
    return std::string("original");
  if (auto* list = std::get_if<std::vector<double>>(&value); list && key == "eps") {
    for (double& number : *list) number = std::isnan(number) ? 0x1p-23 : number;
  }
  return value;
}

/// The options of a group tell one optimizer from another.
void check_type(const Job& job, const std::string& folder, const Hyper& theirs, const Hyper& ours) {
  std::vector<std::string> more = keys_beyond(theirs, ours, true);
  const std::vector<std::string> less = keys_beyond(ours, theirs, false);
  const HyperValue *then = value_in(theirs, kAdamKind), *now = value_in(ours, kAdamKind);
  if (then && now && *then != *now) more.push_back(kAdamKind + (" " + text_of(*then)));
  if (more.empty() && less.empty()) return;
  std::string what = more.empty() ? "" : " has " + quoted(more);
  if (!less.empty()) what += std::string(more.empty() ? "" : " and") + " lacks " + quoted(less);
  throw CheckpointError("'" + folder + "/" + kOptimizerFile + "' is of another optimizer than '" +
                            job.recipe.optimizer.type + "': it" + what,
                        "write the one that made it into the recipe, or to start it afresh add "
                        "--allow " +
                            std::string(kOptimizerFile));
}

/// Types, then names, shapes and slots, then options.
std::vector<RecipeChange> compare_optimizer(Job& job, const std::string& folder,
                                            const TrainState& state) {
  const OptimizerState ours = job.optimizer->state();
  const auto& theirs = state.optimizer.groups;
  for (size_t g = 0; g < std::min(theirs.size(), ours.groups.size()); ++g) {
    check_type(job, folder, theirs[g].hyper, ours.groups[g].hyper);
  }
  job.optimizer->load(state.optimizer);
  std::vector<RecipeChange> changes;
  for (size_t g = 0; g < theirs.size(); ++g) {
    for (const auto& [key, value] : ours.groups[g].hyper) {
      const HyperValue* found = value_in(theirs[g].hyper, key);
      if (is_bookkeeping(key) || !found) continue;
      const std::string then = text_of(without_none(key, *found)), now = text_of(value);
      if (then == now) continue;
      const std::string group = theirs.size() == 1 ? "" : "groups." + std::to_string(g) + ".";
      changes.push_back({"optimizer." + group + key, then, now});
    }
  }
  return changes;
}

void compare_scaler(const Job& job, const TrainState& state, std::vector<RecipeChange>& changes) {
  if (!state.scaler) return;
  StateDict ours;
  job.precision->save(ours);
  if (ours.numbers.empty()) {
    changes.push_back(
        {"accelerator.mixed_precision", "fp16, with a gradient scaler",
         Codec<MixedPrecision>::write(job.recipe.accelerator.mixed_precision).scalar()->text});
  }
  for (const auto& [name, value] : ours.numbers) {
    const auto then = state.scaler->numbers.find(name);
    if (name == "scale" || name == "_growth_tracker" || then == state.scaler->numbers.end() ||
        then->second == value) {
      continue;
    }
    changes.push_back(
        {"accelerator.grad_scaler." + name, show_number(then->second), show_number(value)});
  }
}

struct Place {
  int64_t step = 0;
  int64_t updates = 0;
  std::string source;
};

[[noreturn]] void refuse_place(const std::string& folder, const AccelerateNotes& notes) {
  std::string why = "nothing in it counts them";
  if (notes.schedule && notes.schedule->type != "ReduceLROnPlateau") {
    const std::string steps = std::to_string(notes.schedule->steps);
    why = "'" + std::string(kSchedulerFile) + "' was stepped " + steps + " times by " +
          std::to_string(notes.processes) + " processes, each of which may step it";
  }
  throw CheckpointError("'" + folder + "' does not say how many steps were done: " + why,
                        "say it with checkpoint.resume_step=N; 0 starts at the first sample");
}

/// Accelerate keeps no step: what counts one is its optimizer, or else its scheduler.
Place find_place(const Job& job, const std::string& folder, const AccelerateNotes& notes) {
  const Auto<int64_t>& given = job.recipe.checkpoint.resume_step;
  const bool counts = notes.schedule && notes.schedule->type != "ReduceLROnPlateau" &&
                      (notes.processes == 1 || notes.schedule->steps == 0);
  std::optional<int64_t> updates = notes.updates;
  if (!updates && counts) updates = notes.schedule->steps;
  if (given && job.length.total_steps > 0 && *given > job.length.total_steps) {
    throw CheckpointError("'checkpoint.resume_step' is " + std::to_string(*given) +
                              ", but the run ends at step " +
                              std::to_string(job.length.total_steps),
                          "give the steps that were done, or a later 'train.until'");
  }
  if (given) return {*given, std::min(*given, updates.value_or(*given)), "the recipe"};
  if (!updates) refuse_place(folder, notes);
  return {*updates, *updates, notes.updates ? kOptimizerFile : kSchedulerFile};
}

/// As if every step had taken what a step of this job takes.
Progress progress_at(const Job& job, int64_t step) {
  const int64_t per_epoch = job.train_loader->steps_per_epoch();
  Progress out;
  out.step = step;
  out.epoch = step / per_epoch;
  out.step_in_epoch = step % per_epoch;
  out.samples =
      out.epoch * job.train_loader->samples_per_epoch() + out.step_in_epoch * job.batches.batch;
  if (job.length.tokens_per_step > 0) out.tokens = out.samples * job.data.input.back();
  return out;
}

std::set<std::string> names_of_model(const Job& job) {
  std::set<std::string> names;
  for (const auto* list : {&job.parameters, &job.buffers}) {
    for (const NamedTensor& item : *list) names.insert(item.name);
  }
  return names;
}

/// pytorch_model.bin has tied tensors under each name: those that the model has not go.
void drop_second_names(const std::set<std::string>& known, TrainState& state) {
  std::map<const void*, at::Tensor> wanted;
  for (const NamedTensor& item : state.model) {
    if (known.contains(item.name)) wanted[item.tensor.data_ptr()] = item.tensor;
  }
  std::erase_if(state.model, [&](const NamedTensor& item) {
    if (known.contains(item.name)) return false;
    const auto same = wanted.find(item.tensor.data_ptr());
    return same != wanted.end() && same->second.sizes() == item.tensor.sizes();
  });
}

/// model.safetensors has tied tensors under one name, whichever that is.
void name_tied_head(const Job& job, const std::string& folder, TrainState& state) {
  const std::string ours = tied_head(job);
  const auto named = [&](const std::string& name) {
    return std::find_if(state.model.begin(), state.model.end(),
                        [&](const NamedTensor& item) { return item.name == name; });
  };
  const auto head = named(kTiedHead);
  if (ours.empty() || ours == kTiedHead || head == state.model.end()) return;
  const auto embedding = named(ours);
  if (embedding == state.model.end()) {
    head->name = ours;
  } else if (embedding->tensor.equal(head->tensor)) {
    state.model.erase(head);
  } else {
    throw CheckpointError("'" + std::string(kTiedHead) + "' is not '" + ours + "' in '" + folder +
                              "', but this model has one tensor for both",
                          "train a model that does not tie them");
  }
}

/// Callbacks start here: a tensor of theirs that goes by a parameter's name has its value.
void start_callbacks(const Job& job, TrainState& state, std::vector<std::string>& notes) {
  std::map<std::string, at::Tensor> model;
  for (const NamedTensor& item : state.model) model[item.name] = item.tensor;
  for (size_t i = 0; i < job.callbacks.size(); ++i) {
    const std::string name = callback_part(job.recipe.callbacks, i);
    StateDict& part = state.parts[name];
    job.callbacks[i]->save(part);
    for (auto& [key, tensor] : part.tensors) {
      if (const auto found = model.find(key); found != model.end()) tensor = found->second;
    }
    notes.push_back("'" + name + "' starts here: Accelerate keeps no such state");
  }
}

/// So does a task with a state.
void start_task(const Job& job, TrainState& state, std::vector<std::string>& notes) {
  StateDict task = job.task->state();
  if (task.numbers.empty() && task.texts.empty() && task.tensors.empty()) return;
  state.parts[kTaskPart] = std::move(task);
  notes.push_back("the state of the task '" + job.recipe.task.type + "' starts here");
}

/// The random states of processes that are no more are among them.
std::vector<std::string> files_not_used(const Job& job, const TrainState& state) {
  std::vector<std::string> names = state.accelerate->not_used;
  const auto world = static_cast<size_t>(job.group->world());
  for (size_t rank = world; rank <= state.other_rngs.size(); ++rank) {
    names.push_back(random_states_file(rank));
  }
  return names;
}

}  // namespace

std::vector<std::string> carry_over(Job& job, const std::string& folder,
                                    const std::vector<std::string>& allowed, TrainState& state) {
  const AccelerateNotes& notes = *state.accelerate;
  check_files(job, folder, state, allowed);
  const bool has_optimizer = !has(notes.absent, kOptimizerFile);
  std::vector<RecipeChange> changes;
  if (has_optimizer) changes = compare_optimizer(job, folder, state);
  const Place place = find_place(job, folder, notes);
  std::vector<std::string> lines = {"'" + folder + "' was written by Accelerate, with " +
                                    std::to_string(notes.processes) +
                                    (notes.processes == 1 ? " process" : " processes")};
  carry_schedule(job, place.updates, state);
  if (!has_optimizer) state.optimizer = job.optimizer->state();
  if (has_optimizer || notes.schedule) {
    const auto rates = compare_rates(job, state, place.updates, lines);
    changes.insert(changes.end(), rates.begin(), rates.end());
  }
  compare_scaler(job, state, changes);
  check_changes(changes, allowed);

  state.progress = progress_at(job, place.step);
  lines.push_back("assumed, as Accelerate keeps neither: step " + std::to_string(place.step) +
                  ", as " + place.source + " says, and that each step took " +
                  std::to_string(job.batches.batch) + " samples in this recipe's order");
  const std::vector<std::string> not_used = files_not_used(job, state);
  if (!not_used.empty()) lines.push_back("not used: " + quoted(not_used));
  if (!notes.frozen.empty()) {
    lines.push_back("not used: the optimizer's state of " + quoted(notes.frozen) +
                    ", which this recipe freezes");
  }
  drop_second_names(names_of_model(job), state);
  name_tied_head(job, folder, state);
  start_callbacks(job, state, lines);
  start_task(job, state, lines);
  if (!state.rng.defined()) state.rng = generator_state();
  state.parts[kRunPart].numbers["updates"] = static_cast<double>(place.updates);
  return lines;
}

}  // namespace accel
