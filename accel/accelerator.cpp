#include "accel/accelerator.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <vector>

#include "checkpoint/convert.h"
#include "checkpoint/reader.h"
#include "checkpoint/tensors.h"
#include "checkpoint/writer.h"
#include "core/base/array.h"
#include "core/base/text.h"
#include "core/recipe/codec.h"
#include "core/recipe/node.h"
#include "core/recipe/registry.h"
#include "parallel/join.h"
#include "parallel/operations.h"
#include "parallel/rendezvous/rank_info.h"
#include "parallel/strategy.h"
#include "train/job/torch_setup.h"
#include "train/optim/evaluation_weights.h"
#include "train/optim/hessian_estimate.h"
#include "train/precision/precision.h"
#include "train/step/update.h"

namespace accel {

class Casts {
 public:
  explicit Casts(const Precision& precision) : scope_(precision.autocast()) {}

 private:
  AutocastScope scope_;
};

namespace {

/// A prepared model and its optimizer.
struct Prepared {
  std::vector<Parameter> model;  ///< parameters, then buffers, under a checkpoint's names
  std::unique_ptr<Optimizer> optimizer;
  OptimizerBinding binding;
  bool is_begun = false;  ///< whether the strategy has begun the global batch
};

template <class Dict>
std::vector<Parameter> named(const std::string& prefix, const Dict& tensors) {
  std::vector<Parameter> out;
  std::set<const void*> seen;
  for (const auto& item : tensors) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) {
      out.push_back({prefix + item.key(), item.value()});
    }
  }
  return out;
}

std::shared_ptr<Communicator> join_ranks(const AcceleratorOptions& options) {
  const std::optional<RankInfo> info = find_rank(&environment_variable);
  if (!info) return std::make_shared<SingleProcess>();
  JoinRequest request = join_request(*info, std::nullopt, &environment_variable);
  request.timeout = options.timeout;
  return join(request);
}

MixedPrecision precision_named(const std::string& name) {
  for (const auto& [value, word] : EnumNames<MixedPrecision>::kValues) {
    if (name == word && value != MixedPrecision::kFp8) return value;
  }
  throw Error(ExitCode::kRecipe,
              text("'mixed_precision' must be no, bf16 or fp16, not '{}'", name));
}

Ref<Optimizer> optimizer_named(const std::string& text) {
  Registry registry;
  Registration::enter_all(registry);
  Diagnostics problems;
  Reading reading{problems, registry};
  const Ref<Optimizer> ref =
      registry.of<Optimizer>().prepare(parse_recipe("optimizer.yaml", text), reading);
  problems.check();
  return ref;
}

}  // namespace

struct Accelerator::Parts {
  AcceleratorOptions options;
  std::shared_ptr<Communicator> group;
  GroupRanks ranks{*group};
  std::unique_ptr<Precision> precision;
  std::vector<Prepared> prepared = {};
  std::vector<Registered> registered = {};
  int64_t micro_batches = 0;  ///< since the start
  int64_t updates = 0;
  double norm = 0;
  bool trigger = false;

  Prepared& of(const Optimizer& optimizer) {
    const auto found = std::find_if(prepared.begin(), prepared.end(), [&](const Prepared& item) {
      return item.optimizer.get() == &optimizer;
    });
    if (found != prepared.end()) return *found;
    throw std::logic_error("an optimizer not made by prepare()");
  }
  void check_boundary(const char* function) const {
    if (micro_batches % options.gradient_accumulation_steps == 0) return;
    throw std::logic_error(text("{}() needs a complete global batch", function));
  }
  TrainState capture() const;
  void restore(const TrainState& state);
};

TrainState Accelerator::Parts::capture() const {
  TrainState state;
  state.progress.step = updates;
  state.updates = updates;
  for (const Prepared& item : prepared) {
    std::vector<Parameter> parameters = item.model;
    put_evaluation_weights(*item.optimizer, parameters);
    state.model.insert(state.model.end(), parameters.begin(), parameters.end());
    const std::vector<double> rates = item.optimizer->base_lrs();
    state.base_lrs.insert(state.base_lrs.end(), rates.begin(), rates.end());
    for (OptimizerState::Group& part : item.optimizer->state().groups) {
      state.optimizer.groups.push_back(std::move(part));
    }
    state.optimizers.push_back(rates.size());
  }
  state.lrs = state.base_lrs;
  StateDict scaler;
  precision->save(scaler);
  if (!scaler.numbers.empty()) state.scaler = std::move(scaler);
  for (size_t i = 0; i < registered.size(); ++i) {
    state.sections["custom/" + std::to_string(i)] = registered[i].save();
  }
  const std::vector<at::Tensor> generators = gather_generator_states(*group);
  state.rng = generators.front();
  state.other_rngs.assign(generators.begin() + 1, generators.end());
  return state;
}

void Accelerator::Parts::restore(const TrainState& state) {
  std::vector<Parameter> model;
  for (const Prepared& item : prepared) {
    model.insert(model.end(), item.model.begin(), item.model.end());
  }
  copy_weights(model, {}, state.model);
  size_t groups = 0;
  for (Prepared& item : prepared) {
    const size_t count = item.optimizer->base_lrs().size();
    if (groups + count > state.optimizer.groups.size()) {
      throw CheckpointError("the checkpoint has fewer optimizers than this program");
    }
    const auto first = state.optimizer.groups.begin() + static_cast<ptrdiff_t>(groups);
    item.optimizer->load({.groups = {first, first + static_cast<ptrdiff_t>(count)}});
    groups += count;
  }
  if (state.scaler) precision->load(*state.scaler);
  for (size_t i = 0; i < registered.size(); ++i) {
    const auto found = state.sections.find("custom/" + std::to_string(i));
    if (found == state.sections.end()) {
      throw CheckpointError("the checkpoint has fewer registered objects than this program");
    }
    registered[i].load(found->second);
  }
  updates = state.progress.step;
  const auto rank = static_cast<size_t>(group->rank());
  if (rank <= state.other_rngs.size()) {
    set_generator_state(rank == 0 ? state.rng : state.other_rngs[rank - 1]);
  }
}

Accelerator::Accelerator(const AcceleratorOptions& options) {
  if (options.gradient_accumulation_steps < 1) {
    throw Error(ExitCode::kRecipe, text("'gradient_accumulation_steps' must be at least 1, not {}",
                                        options.gradient_accumulation_steps));
  }
  auto precision = make_precision(precision_named(options.mixed_precision));
  parts_.reset(new Parts{.options = options, .group = join_ranks(options), .precision = nullptr});
  parts_->precision = std::move(precision);
}

Accelerator::~Accelerator() = default;

Ranks& Accelerator::ranks() {
  return parts_->ranks;
}

void Accelerator::print(const std::string& text) {
  if (parts_->ranks.is_main()) std::cout << text << std::endl;
}

Optimizer& Accelerator::prepare(torch::nn::Module& module, const std::string& optimizer) {
  Parts& all = *parts_;
  Prepared item;
  const size_t number = all.prepared.size();
  const std::string prefix = number > 0 ? "model_" + std::to_string(number) + "/" : "";
  const std::vector<Parameter> parameters = named(prefix, module.named_parameters());
  const std::vector<Parameter> buffers = named(prefix, module.named_buffers());
  item.model = parameters;
  item.model.insert(item.model.end(), buffers.begin(), buffers.end());
  const Ref<Optimizer> ref = optimizer_named(optimizer);
  const at::NoGradGuard no_grad;
  for (const Parameter& own : item.model) {
    own.local.copy_(all.ranks.broadcast(own.local));
  }
  for (const Parameter& own : parameters) {
    if (own.local.requires_grad()) item.binding.parameters.push_back(own);
  }
  const StrategyContext context{item.binding.parameters, buffers, all.group.get()};
  item.binding.strategy = all.group->world() > 1 ? make_ddp(context, {}) : make_single();
  item.optimizer = ref.make({item.binding.parameters});
  if (dynamic_cast<const UsesHessianEstimate*>(item.optimizer.get())) {
    throw Error(
        ExitCode::kRecipe,
        text("the optimizer '{}' estimates the Hessian from labels that a task samples, and "
             "a custom loop has no task",
             ref.type),
        "use adamw, or train with accel-run");
  }
  item.binding.optimizer = item.optimizer.get();
  all.prepared.push_back(std::move(item));
  return *all.prepared.back().optimizer;
}

void Accelerator::accumulate() {
  const int64_t before = parts_->micro_batches++;
  if (before % parts_->options.gradient_accumulation_steps != 0) return;
  for (const Prepared& item : parts_->prepared) item.binding.strategy->broadcast_buffers();
}

bool Accelerator::sync_gradients() const {
  return parts_->micro_batches % parts_->options.gradient_accumulation_steps == 0;
}

std::unique_ptr<Casts> Accelerator::autocast() {
  return std::make_unique<Casts>(*parts_->precision);
}

void Accelerator::backward(const at::Tensor& loss, Optimizer& optimizer) {
  Parts& all = *parts_;
  const auto world = all.group->world();
  const int64_t micro_batches = all.options.gradient_accumulation_steps;
  at::Tensor share = micro_batches > 1 ? loss.div(micro_batches) : loss;
  if (world > 1) share = share.div(world);
  Prepared& item = all.of(optimizer);
  Strategy& strategy = *item.binding.strategy;
  if (!item.is_begun) {
    strategy.begin({.step = all.updates + 1,
                    .num_micro_batches = micro_batches * world,
                    .own = {all.group->rank()}});
    item.is_begun = true;
  }
  strategy.before_pass(sync_gradients());
  all.precision->scale(share).backward();
  strategy.after_pass();
  if (!sync_gradients()) return;
  strategy.finish();
  item.is_begun = false;
}

bool Accelerator::step(Optimizer& optimizer) {
  if (!sync_gradients()) return false;
  Parts& all = *parts_;
  const Prepared& item = all.of(optimizer);
  const double limit = all.options.max_grad_norm;
  const GradientLimits limits{.max_norm = limit > 0 ? std::optional(limit) : std::nullopt,
                              .max_value = std::nullopt};
  const bool updated =
      apply_gradients(item.binding, *all.precision, limits,
                      [&](const at::Tensor& norm) { all.norm = norm.item().toDouble(); });
  if (updated && &item == &all.prepared.front()) ++all.updates;
  reset_gradients(item.binding, *all.precision);
  return updated;
}

double Accelerator::grad_norm() const {
  return parts_->norm;
}

void Accelerator::set_trigger() {
  parts_->trigger = true;
}

bool Accelerator::check_trigger() {
  const bool found = parts_->ranks.any(parts_->trigger);
  if (found) parts_->trigger = false;
  return found;
}

void Accelerator::register_for_checkpointing(Registered object) {
  parts_->registered.push_back(std::move(object));
}

void Accelerator::save_state(const std::string& folder) {
  parts_->check_boundary("save_state");
  const TrainState state = parts_->capture();
  std::exception_ptr failed;
  if (parts_->ranks.is_main()) {
    try {
      DiskFiles files;
      publish_folder(files, folder,
                     [&](const std::string& staged) { write_checkpoint(files, staged, state); });
    } catch (...) {
      failed = std::current_exception();
    }
  }
  const bool any = parts_->ranks.any(failed != nullptr);
  if (failed) std::rethrow_exception(failed);
  if (any) throw IoError(text("rank 0 cannot write '{}'", folder), "see the error of rank 0");
}

void Accelerator::load_state(const std::string& folder) {
  parts_->check_boundary("load_state");
  DiskFiles files;
  parts_->restore(read_checkpoint(files, folder));
}

}  // namespace accel
