#include "train/loop/run_state.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "checkpoint/tensors.h"
#include "core/api/block.h"
#include "core/api/sample_rng.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/recipe/parse.h"
#include "core/recipe/scalar.h"
#include "train/job/build_strategy.h"
#include "train/job/data_schema.h"
#include "train/job/device.h"
#include "train/job/torch_setup.h"
#include "train/loop/rank_states.h"
#include "train/loop/shards.h"

namespace accel {
namespace {

constexpr auto kTrackerSection = "trackers/";

const StateDict& section_of(const TrainState& state, const std::string& name) {
  const auto found = state.sections.find(name);
  if (found == state.sections.end()) {
    throw CheckpointError(text("the checkpoint has no section '{}'", name),
                          "it was made by another version or with another recipe");
  }
  return found->second;
}

bool is_empty(const StateDict& state) {
  return state.numbers.empty() && state.texts.empty() && state.tensors.empty();
}

constexpr auto kSamplerSeed = "sampler_seed";        // a text: a double has 53 bits
constexpr std::string_view kInterval = "interval/";  // sums since the last log line
constexpr std::string_view kLoggedSum = "interval/sum/", kLoggedSteps = "interval/steps/";

/// Nothing after a log line, so that checkpoints of equal states are equal.
void save_interval(const LogInterval& interval, std::map<std::string, double>& numbers) {
  if (interval.steps == 0) return;
  numbers["interval/steps"] = static_cast<double>(interval.steps);
  numbers["interval/loss"] = interval.loss;
  numbers["interval/grad_norm"] = interval.grad_norm;
  for (const auto& [name, logged] : interval.logged) {
    numbers[std::string(kLoggedSum) + name] = logged.first;
    numbers[std::string(kLoggedSteps) + name] = static_cast<double>(logged.second);
  }
}

/// `name` starts with kInterval. Checkpoints of 0.1.0 have no such numbers.
void load_interval(const std::string& name, double value, LogInterval& interval) {
  const auto logged = [&](std::string_view prefix) -> auto& {
    return interval.logged[name.substr(prefix.size())];
  };
  if (name == "interval/steps") interval.steps = static_cast<int64_t>(value);
  if (name == "interval/loss") interval.loss = value;
  if (name == "interval/grad_norm") interval.grad_norm = value;
  if (name.starts_with(kLoggedSum)) logged(kLoggedSum).first = value;
  if (name.starts_with(kLoggedSteps)) logged(kLoggedSteps).second = static_cast<int64_t>(value);
}

StateDict to_state_dict(const RunState& run) {
  StateDict section;
  section.numbers = {{"updates", static_cast<double>(run.updates)},
                     {"seconds", run.seconds},
                     {"last_loss", run.last_loss},
                     {"evaluated_step", static_cast<double>(run.evaluated_step)},
                     {"eval_pending", run.eval_pending ? 1.0 : 0.0},
                     {"best_step", static_cast<double>(run.best_step)}};
  if (run.best) section.numbers["best"] = *run.best;
  if (run.sampler_seed) section.texts[kSamplerSeed] = std::to_string(*run.sampler_seed);
  for (const auto& [name, value] : run.evaluation) section.numbers["evaluation/" + name] = value;
  save_interval(run.interval, section.numbers);
  return section;
}

RunState run_of(const TrainState& state) {
  RunState run;
  run.progress = state.progress;
  const StateDict& section = section_of(state, kRunSection);
  const auto seed = section.texts.find(kSamplerSeed);
  if (seed != section.texts.end()) run.sampler_seed = std::stoull(seed->second);
  for (const auto& [name, value] : section.numbers) {
    if (name == "updates") run.updates = static_cast<int64_t>(value);
    if (name == "seconds") run.seconds = value;
    if (name == "last_loss") run.last_loss = value;
    if (name == "evaluated_step") run.evaluated_step = static_cast<int64_t>(value);
    if (name == "eval_pending") run.eval_pending = value != 0;
    if (name == "best_step") run.best_step = static_cast<int64_t>(value);
    if (name == "best") run.best = value;
    if (name.starts_with("evaluation/")) run.evaluation[name.substr(11)] = value;
    if (name.starts_with(kInterval)) load_interval(name, value, run.interval);
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

/// Saves learning rates as Python's schedulers do: the next update's rate is in the param_groups.
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

/// Like restore_generator(), for the device's generator.
void restore_device_generator(const Job& job, const TrainState& saved) {
  const auto rank = static_cast<size_t>(job.data_rank);
  const auto device = static_cast<int64_t>(static_cast<uint8_t>(job.device.index()));
  if (rank >= saved.device_rngs.size() || device >= saved.device_rngs[rank].size(0)) {
    SampleRng rng(static_cast<uint64_t>(job.recipe.seed),
                  static_cast<uint64_t>(saved.progress.step), rank);
    return seed_device_generator(job.device, rng.next());
  }
  try {
    set_device_generator_state(job.device, saved.device_rngs[rank][device]);
  } catch (const std::exception&) {
    throw CheckpointError("the checkpoint's random state does not fit this type of GPU");
  }
}

/// Restores this rank's generator; a rank without saved state gets a new random stream.
void restore_generator(const Job& job, const TrainState& saved) {
  const int64_t rank = job.data_rank;
  if (rank > static_cast<int64_t>(saved.other_rngs.size())) {
    return seed_rank(job, saved.progress.step);
  }
  const at::Tensor& state = rank == 0 ? saved.rng : saved.other_rngs[static_cast<size_t>(rank) - 1];
  try {
    set_generator_state(state);
  } catch (const std::exception&) {
    throw CheckpointError("the checkpoint's random state does not fit PyTorch's CPU generator");
  }
}

/// Sets the order of the epoch in which the run continues.
void restore_sampler(const Job& job, const RunState& state) {
  if (job.recipe.compat.use_seedable_sampler) return;
  if (state.sampler_seed) {
    job.train_loader->set_sampler_seed(*state.sampler_seed);
  } else if (state.progress.step_in_epoch > 0) {
    throw CheckpointError(
        "the checkpoint is from the middle of an epoch, and has no seed of the epoch's order, "
        "which "
        "'compat.use_seedable_sampler' false needs",
        "resume from a checkpoint at the start of an epoch, or set the option to true");
  }
}

}  // namespace

std::string callback_section(const std::vector<Ref<Callback>>& callbacks, size_t index) {
  const std::string& type = callbacks[index].type;
  int count = 1;
  for (size_t i = 0; i < index; ++i) count += callbacks[i].type == type;
  return "callbacks/" + type + (count > 1 ? "." + std::to_string(count) : "");
}

std::string tied_head(const Job& job) {
  at::Tensor head;
  if (auto* chain = dynamic_cast<BlockChain*>(job.model.get())) {
    head = chain->tied_weight();
  } else if (auto* model = dynamic_cast<LanguageModel*>(job.model.get())) {
    head = model->head_weight();
  }
  if (!head.defined()) return {};
  for (const Parameter& item : job.parameters) {
    if (item.local.is_same(head)) return item.name;
  }
  return {};
}

/// Delayed scaling of fp8 is the precision whose state has tensors.
void save_precision(const Precision& precision, TrainState& state) {
  StateDict saved;
  precision.save(saved);
  if (!saved.tensors.empty()) {
    state.sections[kFp8Section] = std::move(saved);
  } else if (!saved.numbers.empty()) {
    state.scaler = std::move(saved);
  }
}

void load_precision(const TrainState& state, Precision& precision) {
  StateDict own;
  precision.save(own);
  if (own.tensors.empty()) {
    if (state.scaler) precision.load(*state.scaler);
    return;
  }
  const auto found = state.sections.find(kFp8Section);
  precision.load(found == state.sections.end() ? StateDict() : found->second);
}

std::map<std::string, std::string> run_provenance(const Job& job) {
  std::map<std::string, std::string> provenance = environment_info();
  provenance["device"] = device_text(job.device);
  if (job.recipe.accelerator.reduction == Reduction::kBucketed) {
    provenance["ranks"] = std::to_string(job.batches.world);
  }
  if (job.tensor_ranks) provenance[kTensorRanksKey] = std::to_string(job.tensor_ranks->size());
  if (job.expert_ranks) provenance[kExpertRanksKey] = std::to_string(job.expert_ranks->size());
  const ParallelismSection& axes = job.recipe.accelerator.parallelism;
  const int64_t context = axes.cp * axes.sp;
  if (context > 1) provenance[kContextRanksKey] = std::to_string(context);
  return provenance;
}

std::map<std::string, std::string> plugin_provenance(const std::vector<PluginIdentity>& plugins) {
  std::map<std::string, std::string> provenance;
  for (const PluginIdentity& plugin : plugins) {
    provenance[kPluginKey + plugin.name] = plugin.version + ", sha256 " + plugin.sha256;
  }
  return provenance;
}

TrainState capture(const Job& job, const RunState& run, const TrackerIds& trackers) {
  TrainState state;
  state.progress = run.progress;
  state.seed = static_cast<uint64_t>(job.recipe.seed);
  state.model = job.parameters;
  state.model.insert(state.model.end(), job.buffers.begin(), job.buffers.end());
  state.optimizer = job.optimizer->state();
  state.base_lrs = job.optimizer->base_lrs();
  for (const OptimizerBinding& binding : job.optimizers) {
    state.optimizers.push_back(binding.optimizer->base_lrs().size());
  }
  capture_rates(job, run.updates, state);
  job.schedule->save(state.schedule);
  save_precision(*job.precision, state);
  state.rng = generator_state();
  if (!job.device.is_cpu()) state.device_rngs = {device_generator_states(job.device.type())};
  state.sections[kRunSection] = to_state_dict(run);
  state.sections[kDataSection].texts[kDataShape] = shape_text(job.data);
  if (!job.fitted_values.empty()) {
    state.sections[kDataSection].texts[kFittedValues] = job.fitted_values;
  }
  for (size_t i = 0; i < job.callbacks.size(); ++i) {
    job.callbacks[i]->save(state.sections[callback_section(job.recipe.callbacks, i)]);
  }
  StateDict task = job.task->state();
  if (!is_empty(task)) state.sections[kTaskSection] = std::move(task);
  for (const auto& [name, ids] : trackers) state.sections[kTrackerSection + name].texts = ids;
  state.provenance = run_provenance(job);
  state.provenance.merge(plugin_provenance(job.recipe.plugin_identities));
  state.provenance["data"] = job.data_fingerprint;
  if (!job.weights_fingerprint.empty()) state.provenance["weights"] = job.weights_fingerprint;
  if (run.evaluated_step == run.progress.step) state.metrics = run.evaluation;
  state.recipe = to_yaml(job.resolved);
  return state;
}

namespace {

/// The samples of a step of the run that wrote the checkpoint; none: unknown.
std::optional<int64_t> batch_of(const TrainState& state) {
  if (state.recipe.empty()) return std::nullopt;  // of Accelerate
  const Node recipe = parse_recipe("checkpoint", state.recipe);
  const Node::Entry* train = recipe.find("train");
  const Node::Entry* batch = train ? train->node.find("batch") : nullptr;
  const Scalar* scalar = batch ? batch->node.scalar() : nullptr;
  return scalar ? parse_integer(*scalar).value : std::nullopt;
}

/// Where a run with another batch size stopped, in steps of this one's: no sample of the epoch is
/// left out, and less than a batch is trained on twice.
Progress in_steps_of(const Job& job, const TrainState& state) {
  Progress out = state.progress;
  const std::optional<int64_t> before = batch_of(state);
  const int64_t batch = job.batches.batch, all = job.train_loader->samples_per_epoch();
  if (out.step_in_epoch == 0 || !before || *before == batch) return out;
  const int64_t samples = std::min(out.step_in_epoch * *before, all);
  out.step_in_epoch = samples / batch;
  if (const int64_t again = samples % batch; again > 0) {
    warn(
        text("'train.batch' was {}: of epoch {}, the {} samples before sample {} are trained on "
             "again",
             *before, out.epoch, again, samples));
  }
  return out;
}

}  // namespace

RunState restore(Job& job, const TrainState& whole) {
  TrainState state = whole;  // shares the tensors
  state.progress = in_steps_of(job, state);
  take_shards(job, state);
  copy_weights(job.parameters, job.buffers, state.model, job.swapper.get());
  job.optimizer->load(state.optimizer);
  job.schedule->load(state.schedule);
  load_precision(state, *job.precision);
  for (size_t i = 0; i < job.callbacks.size(); ++i) {
    job.callbacks[i]->load(section_of(state, callback_section(job.recipe.callbacks, i)));
  }
  if (state.sections.contains(kTaskSection) || !is_empty(job.task->state())) {
    job.task->load(section_of(state, kTaskSection));
  }
  RunState run = run_of(state);
  restore_sampler(job, run);
  job.train_loader->seek(state.progress.epoch, state.progress.step_in_epoch);
  if (!restore_rank_state(job, state)) {
    say("the checkpoint's per-rank state is not used: the number of ranks has changed");
  }
  restore_generator(job, state);
  if (!job.device.is_cpu()) restore_device_generator(job, state);
  return run;
}

void save_record_mark(const RecordMark& mark, TrainState& state) {
  state.sections[kRecordSection].texts = {{"bytes", std::to_string(mark.bytes)},
                                          {"xxh3", hex_text(mark.checksum)}};
}

std::optional<RecordMark> record_mark(const TrainState& state) {
  const auto found = state.sections.find(kRecordSection);
  if (found == state.sections.end()) return std::nullopt;
  const auto& texts = found->second.texts;
  try {
    constexpr int kHexadecimal = 16;
    return RecordMark{std::stoull(texts.at("bytes")),
                      std::stoull(texts.at("xxh3"), nullptr, kHexadecimal)};
  } catch (const std::logic_error&) {
    throw CheckpointError("the checkpoint's section 'record' has no length and checksum");
  }
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
  const auto found = state.sections.find(kTrackerSection + name);
  return found == state.sections.end() ? std::map<std::string, std::string>{} : found->second.texts;
}

}  // namespace accel
