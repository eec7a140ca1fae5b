#include "compat/accelerate/import_checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "checkpoint/file_names.h"
#include "compat/accelerate/schedule_match.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "train/job/torch_setup.h"
#include "train/loop/run_state.h"
#include "train/loop/shards.h"
#include "train/recipe/recipe_diff.h"

namespace accel {
namespace {

/// transformers' names of a head that is tied to the token embedding.
constexpr const char* kTiedHeads[] = {"lm_head.weight", "lm_head.decoder.weight",
                                      "cls.predictions.decoder.weight"};

bool has(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

/// Requires the files of a resume, except those allowed to be missing.
void check_files(const Job& job, const std::string& folder, const TrainState& state,
                 const std::vector<std::string>& allowed) {
  const auto& absent = state.accelerate->absent;
  const bool scales = job.recipe.accelerator.mixed_precision == MixedPrecision::kFp16;
  std::vector<std::string> missing;
  std::string consent;
  const auto want = [&](const char* file, bool there) {
    if (there || has(allowed, file)) return;
    missing.emplace_back(file);
    consent += std::string(" --allow ") + file;
  };
  want(kOptimizerFile, !has(absent, kOptimizerFile));
  want(kRandomStatesFile, state.rng.defined());
  if (scales) want(kScalerFile, state.scaler.has_value());
  if (missing.empty()) return;
  throw CheckpointError(text("'{}' has no {} to resume from", folder, quoted_list(missing)),
                        text("to start without their state add{}", consent));
}

/// The option that distinguishes Adam from AdamW.
constexpr auto kAdamKind = "decoupled_weight_decay";

/// Keys of schedulers, and of implementations with the same update.
bool is_bookkeeping(const std::string& key) {
  constexpr std::array kKeys = {"lr",           "initial_lr",    "max_lr",  "min_lr",
                                "max_momentum", "fused",         "foreach", "base_momentum",
                                "capturable",   "differentiable"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

/// Keys that older versions of PyTorch lack.
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

/// One text for equal integers and floats.
std::string text_of(const HyperValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value)) return show_number(*number);
  if (const auto* content = std::get_if<std::string>(&value)) return *content;
  const auto* list = std::get_if<std::vector<double>>(&value);
  return list ? "[" + joined(*list, ", ", &show_number) + "]" : "none";
}

/// The keys of `hyper` that are not in `other`.
std::vector<std::string> keys_beyond(const Hyper& hyper, const Hyper& other, bool recent) {
  std::vector<std::string> out;
  for (const auto& [key, value] : hyper) {
    const bool counts = !is_bookkeeping(key) && (recent || !is_recent(key));
    if (counts && !value_in(other, key)) out.push_back(key);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Replaces None by PyTorch's default: Muon's adjust_lr_fn, and float32's epsilon in Adafactor's
/// eps.
HyperValue without_none(const std::string& key, HyperValue value) {
  if (key == "adjust_lr_fn" && std::holds_alternative<std::monostate>(value))
    return std::string("original");
  if (auto* list = std::get_if<std::vector<double>>(&value); list && key == "eps") {
    for (double& number : *list) number = std::isnan(number) ? 0x1p-23 : number;
  }
  return value;
}

/// Recognizes another optimizer by the options of its groups.
void check_type(const Job& job, const std::string& folder, const Hyper& theirs, const Hyper& ours) {
  std::vector<std::string> more = keys_beyond(theirs, ours, true);
  const std::vector<std::string> less = keys_beyond(ours, theirs, false);
  const HyperValue *then = value_in(theirs, kAdamKind), *now = value_in(ours, kAdamKind);
  if (then && now && *then != *now) more.push_back(kAdamKind + (" " + text_of(*then)));
  if (more.empty() && less.empty()) return;
  std::vector<std::string> differences;
  if (!more.empty()) differences.push_back(text("has {}", quoted_list(more)));
  if (!less.empty()) differences.push_back(text("lacks {}", quoted_list(less)));
  throw CheckpointError(
      text("'{}/{}' is of another optimizer than '{}': it {}", folder, kOptimizerFile,
           job.recipe.optimizer.type, joined(differences, " and ")),
      text("write its optimizer into the recipe, or to start without its state add --allow {}",
           kOptimizerFile));
}

/// Compares types, then names, shapes and slots, then options.
std::vector<RecipeChange> compare_optimizer(Job& job, const std::string& folder,
                                            const TrainState& state) {
  const OptimizerState ours = job.optimizer->state();
  const auto& theirs = state.optimizer.groups;
  for (size_t g = 0; g < std::min(theirs.size(), ours.groups.size()); ++g) {
    check_type(job, folder, theirs[g].hyper, ours.groups[g].hyper);
  }
  TrainState own = state;  // shares the tensors
  take_shards(job, own);
  job.optimizer->load(own.optimizer);
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

struct ResumePoint {
  int64_t step = 0;
  int64_t updates = 0;
  std::string source;
};

[[noreturn]] void refuse_unknown_step(const std::string& folder, const AccelerateNotes& notes) {
  std::string why = "it has no step count";
  if (notes.schedule && notes.schedule->type != "ReduceLROnPlateau") {
    why = text("'{}' was stepped {} times by {} processes, each of which may step it",
               kSchedulerFile, notes.schedule->steps, notes.processes);
  }
  throw CheckpointError(text("the number of steps done of '{}' is unknown: {}", folder, why),
                        "set checkpoint.resume_step=N; 0 starts at the first sample");
}

/// The step, which Accelerate does not save, from the optimizer or else the scheduler.
ResumePoint find_resume_point(const Job& job, const std::string& folder,
                              const AccelerateNotes& notes) {
  const Auto<int64_t>& given = job.recipe.checkpoint.resume_step;
  const bool counts = notes.schedule && notes.schedule->type != "ReduceLROnPlateau" &&
                      (notes.processes == 1 || notes.schedule->steps == 0);
  std::optional<int64_t> updates = notes.updates;
  if (!updates && counts) updates = notes.schedule->steps;
  if (given && job.length.total_steps > 0 && *given > job.length.total_steps) {
    throw CheckpointError(text("'checkpoint.resume_step' is {}, but the run ends at step {}",
                               *given, job.length.total_steps),
                          "set the number of steps done, or a later 'train.until'");
  }
  if (given) return {*given, std::min(*given, updates.value_or(*given)), "the recipe"};
  if (!updates) refuse_unknown_step(folder, notes);
  return {*updates, *updates, notes.updates ? kOptimizerFile : kSchedulerFile};
}

/// The progress after `step` steps of this job's batch size.
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
    for (const Parameter& item : *list) names.insert(item.name);
  }
  return names;
}

/// Drops names of tied tensors in pytorch_model.bin that the model does not have.
void drop_unknown_tied_names(const std::set<std::string>& known, TrainState& state) {
  std::map<const void*, at::Tensor> wanted;
  for (const Parameter& item : state.model) {
    if (known.contains(item.name)) wanted[item.local.data_ptr()] = item.local;
  }
  std::erase_if(state.model, [&](const Parameter& item) {
    if (known.contains(item.name)) return false;
    const auto same = wanted.find(item.local.data_ptr());
    return same != wanted.end() && same->second.sizes() == item.local.sizes();
  });
}

/// Renames a tied head: model.safetensors has it under one of its names.
void name_tied_head(const Job& job, const std::string& folder, TrainState& state) {
  const std::string ours = tied_head(job);
  const auto named = [&](const std::string& name) {
    return std::find_if(state.model.begin(), state.model.end(),
                        [&](const Parameter& item) { return item.name == name; });
  };
  const auto kind = std::find_if(
      std::begin(kTiedHeads), std::end(kTiedHeads),
      [&](const char* name) { return ours != name && named(name) != state.model.end(); });
  if (ours.empty() || kind == std::end(kTiedHeads)) return;
  const auto head = named(*kind);
  const auto embedding = named(ours);
  if (embedding == state.model.end()) {
    head->name = ours;
  } else if (embedding->local.equal(head->local)) {
    state.model.erase(head);
  } else {
    throw CheckpointError(
        text("'{}' and '{}' differ in '{}', but are tied in this model", *kind, ours, folder),
        "train a model that does not tie them");
  }
}

/// Initializes callbacks, which Accelerate does not save. Tensors with the name of a parameter are
/// set to its value.
void init_callbacks(const Job& job, TrainState& state, std::vector<std::string>& notes) {
  std::map<std::string, at::Tensor> model;
  for (const Parameter& item : state.model) model[item.name] = item.local;
  for (size_t i = 0; i < job.callbacks.size(); ++i) {
    const std::string name = callback_section(job.recipe.callbacks, i);
    StateDict& section = state.sections[name];
    job.callbacks[i]->save(section);
    for (auto& [key, tensor] : section.tensors) {
      if (const auto found = model.find(key); found != model.end()) tensor = found->second;
    }
    notes.push_back(text("'{}' starts without state: Accelerate does not save it", name));
  }
}

/// Initializes the state of a task.
void init_task(const Job& job, TrainState& state, std::vector<std::string>& notes) {
  StateDict task = job.task->state();
  if (task.numbers.empty() && task.texts.empty() && task.tensors.empty()) return;
  state.sections[kTaskSection] = std::move(task);
  notes.push_back(text("the task '{}' starts without state: Accelerate does not save it",
                       job.recipe.task.type));
}

/// With the random states of ranks beyond this job's.
std::vector<std::string> files_not_used(const Job& job, const TrainState& state) {
  std::vector<std::string> names = state.accelerate->not_used;
  const auto world = static_cast<size_t>(job.batches.world);
  for (size_t rank = world; rank <= state.other_rngs.size(); ++rank) {
    names.push_back(random_states_file(rank));
  }
  return names;
}

}  // namespace

std::vector<std::string> import_accelerate_checkpoint(Job& job, const std::string& folder,
                                                      const std::vector<std::string>& allowed,
                                                      TrainState& state) {
  const AccelerateNotes& notes = *state.accelerate;
  check_files(job, folder, state, allowed);
  const bool has_optimizer = !has(notes.absent, kOptimizerFile);
  std::vector<RecipeChange> changes;
  if (has_optimizer) changes = compare_optimizer(job, folder, state);
  const ResumePoint point = find_resume_point(job, folder, notes);
  std::vector<std::string> lines = {text("'{}' was written by Accelerate, with {} process{}",
                                         folder, notes.processes,
                                         notes.processes == 1 ? "" : "es")};
  if (!notes.wrapper.empty()) {
    lines.push_back(text("'{}' is removed from the names of the model", notes.wrapper));
  }
  import_schedule(job, point.updates, state);
  if (!has_optimizer) state.optimizer = job.optimizer->state();
  if (has_optimizer || notes.schedule) {
    const auto rates = compare_rates(job, state, point.updates, lines);
    changes.insert(changes.end(), rates.begin(), rates.end());
  }
  compare_scaler(job, state, changes);
  check_changes(changes, allowed);

  state.progress = progress_at(job, point.step);
  lines.push_back(
      text("assumed, since Accelerate saves neither: step {}, from {}, and {} samples "
           "per step in this recipe's order",
           point.step, point.source, job.batches.batch));
  const std::vector<std::string> not_used = files_not_used(job, state);
  if (!not_used.empty()) lines.push_back(text("not used: {}", quoted_list(not_used)));
  if (!notes.frozen.empty()) {
    lines.push_back(text("not used: the optimizer state of {}, which this recipe freezes",
                         quoted_list(notes.frozen)));
  }
  drop_unknown_tied_names(names_of_model(job), state);
  name_tied_head(job, folder, state);
  init_callbacks(job, state, lines);
  init_task(job, state, lines);
  if (!state.rng.defined()) state.rng = generator_state();
  state.sections[kRunSection].numbers["updates"] = static_cast<double>(point.updates);
  return lines;
}

}  // namespace accel
