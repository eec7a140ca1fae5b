#include "accel/accelerator.h"

#include <fcntl.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <vector>

#include "core/codec.h"
#include "core/node.h"
#include "core/registry.h"
#include "runner/checkpoint/convert.h"
#include "runner/checkpoint/reader.h"
#include "runner/checkpoint/writer.h"
#include "runner/dist/group_ranks.h"
#include "runner/dist/join.h"
#include "runner/dist/operations.h"
#include "runner/dist/strategy.h"
#include "runner/job/torch_setup.h"
#include "runner/launch/rank_place.h"
#include "runner/launch/rendezvous.h"
#include "runner/optim/clip.h"
#include "runner/precision/precision.h"

namespace accel {

class Casts {
 public:
  explicit Casts(const Precision& precision) : scope_(precision.autocast()) {}

 private:
  AutocastScope scope_;
};

namespace {

/// One model and what trains it.
struct Prepared {
  std::vector<NamedTensor> model;    ///< parameters, then buffers, under a checkpoint's names
  std::vector<NamedTensor> trained;  ///< parameters with gradients
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Optimizer> optimizer;
};

template <class Dict>
std::vector<NamedTensor> named(const std::string& prefix, const Dict& tensors) {
  std::vector<NamedTensor> out;
  std::set<const void*> seen;
  for (const auto& item : tensors) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) {
      out.push_back({prefix + item.key(), item.value()});
    }
  }
  return out;
}

std::string variable(const char* name) {
  return environment_variable(name).value_or("");
}

std::shared_ptr<Communicator> meet(const AcceleratorOptions& options) {
  const std::optional<RankPlace> place = find_rank(&environment_variable);
  if (!place) return std::make_shared<SingleProcess>();
  JoinRequest request;
  request.rank = place->rank;
  request.world = place->world;
  request.address = place->main_address;
  request.port = static_cast<int>(place->main_port);
  request.timeout = options.timeout;
  request.store_is_there = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  request.group = variable("TORCHELASTIC_RESTART_COUNT");
  if (!request.store_is_there && request.rank == 0) {
    const MeetingPoint point = meet_as_main_machine(request.address, request.port);
    request.listen_fd = fcntl(point.listener.get(), F_DUPFD_CLOEXEC, 0);
  }
  return join(request);
}

MixedPrecision precision_named(const std::string& name) {
  for (const auto& [value, word] : EnumNames<MixedPrecision>::kValues) {
    if (name == word) return value;
  }
  throw Error(ExitCode::kRecipe, "'mixed_precision' is '" + name + "'", "no, bf16 or fp16");
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
    throw std::logic_error("an optimizer that prepare() has not made");
  }
  void check_boundary(const char* what) const {
    if (micro_batches % options.gradient_accumulation_steps == 0) return;
    throw std::logic_error(std::string(what) + "() is for the end of a window of micro-batches");
  }
  TrainState capture() const;
  void restore(const TrainState& state);
};

TrainState Accelerator::Parts::capture() const {
  TrainState state;
  state.progress.step = updates;
  state.updates = updates;
  for (const Prepared& item : prepared) {
    state.model.insert(state.model.end(), item.model.begin(), item.model.end());
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
    state.parts["custom/" + std::to_string(i)] = registered[i].save();
  }
  state.rng = generator_state();
  const at::Tensor all = group->all_gather(state.rng, "generators");
  for (int64_t rank = 1; rank < group->world(); ++rank) {
    state.other_rngs.push_back(all.select(0, rank).clone());
  }
  state.rng = all.select(0, 0).clone();
  return state;
}

void Accelerator::Parts::restore(const TrainState& state) {
  std::map<std::string, at::Tensor> saved;
  for (const NamedTensor& item : state.model) saved[item.name] = item.tensor;
  size_t groups = 0;
  const at::NoGradGuard no_grad;
  for (Prepared& item : prepared) {
    for (const NamedTensor& own : item.model) {
      const auto found = saved.find(own.name);
      if (found == saved.end() || found->second.sizes() != own.tensor.sizes()) {
        throw CheckpointError("the checkpoint has no '" + own.name + "' of this shape");
      }
      own.tensor.copy_(found->second);
    }
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
    const auto found = state.parts.find("custom/" + std::to_string(i));
    if (found == state.parts.end()) {
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
    throw Error(ExitCode::kRecipe, "'gradient_accumulation_steps' must be at least 1, not " +
                                       std::to_string(options.gradient_accumulation_steps));
  }
  auto precision = make_precision(precision_named(options.mixed_precision));
  parts_.reset(new Parts{.options = options, .group = meet(options), .precision = nullptr});
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
  const std::vector<NamedTensor> parameters = named(prefix, module.named_parameters());
  const std::vector<NamedTensor> buffers = named(prefix, module.named_buffers());
  item.model = parameters;
  item.model.insert(item.model.end(), buffers.begin(), buffers.end());
  const Ref<Optimizer> ref = optimizer_named(optimizer);
  const at::NoGradGuard no_grad;
  for (const NamedTensor& own : item.model) {
    own.tensor.copy_(all.ranks.broadcast(own.tensor));
  }
  for (const NamedTensor& own : parameters) {
    if (own.tensor.requires_grad()) item.trained.push_back(own);
  }
  const StrategyContext context{item.trained, buffers, all.group.get()};
  item.strategy = all.group->world() > 1 ? make_ddp(context, {}) : make_single();
  item.optimizer = ref.make({item.trained});
  all.prepared.push_back(std::move(item));
  return *all.prepared.back().optimizer;
}

void Accelerator::accumulate() {
  const int64_t before = parts_->micro_batches++;
  if (before % parts_->options.gradient_accumulation_steps != 0) return;
  for (const Prepared& item : parts_->prepared) item.strategy->share_buffers();
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
  at::Tensor part = micro_batches > 1 ? loss.div(micro_batches) : loss;
  if (world > 1) part = part.div(world);
  const auto pass = [&](size_t) { all.precision->scale(part).backward(); };
  if (!sync_gradients()) return pass(0);
  const WindowParts window{.step = all.updates + 1, .planned = world, .own = {all.group->rank()}};
  all.of(optimizer).strategy->run(window, pass);
}

bool Accelerator::step(Optimizer& optimizer) {
  if (!sync_gradients()) return false;
  Parts& all = *parts_;
  const Prepared& item = all.of(optimizer);
  const bool finite = all.precision->unscale(item.trained);
  if (finite) {
    const double limit = all.options.max_grad_norm;
    all.norm = (limit > 0 ? clip_grad_norm_(item.trained, limit) : gradient_norm(item.trained))
                   .item()
                   .toDouble();
    optimizer.step();
    if (&item == &all.prepared.front()) ++all.updates;
  }
  all.precision->update();
  optimizer.zero_grad();
  return finite;
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
  if (any) throw IoError("rank 0 could not write '" + folder + "'");
}

void Accelerator::load_state(const std::string& folder) {
  parts_->check_boundary("load_state");
  DiskFiles files;
  parts_->restore(read_checkpoint(files, folder));
}

}  // namespace accel
