#include "train/loop/rank_states.h"

#include <string>
#include <utility>

#include "parallel/operations.h"
#include "train/optim/evaluation_weights.h"

namespace accel {
namespace {

/// Prefix of the state of optimizer `index`'s strategy.
std::string strategy_prefix(size_t index) {
  return "strategy" + (index > 0 ? "." + std::to_string(index) : std::string()) + "/";
}

constexpr auto kOptimizer = "optimizer/";
constexpr auto kWorld = "world";
constexpr auto kLocal = "local";  ///< the optimizer's state is per rank

/// This rank's state, sharing memory.
StateDict own_state(const Job& job) {
  StateDict own;
  for (size_t i = 0; i < job.optimizers.size(); ++i) {
    const StateDict strategy = job.optimizers[i].strategy->state();
    const std::string prefix = strategy_prefix(i);
    for (const auto& [name, value] : strategy.numbers) own.numbers[prefix + name] = value;
    for (const auto& [name, tensor] : strategy.tensors) own.tensors[prefix + name] = tensor;
  }
  if (syncs_gradients(job)) return own;
  own.numbers[kLocal] = 1;
  for (const OptimizerState::Group& group : job.optimizer->state().groups) {
    for (const OptimizerState::ParameterState& parameter : group.parameters) {
      for (const Parameter& slot : parameter.slots) {
        own.tensors[kOptimizer + parameter.name + "/" + slot.name] = slot.local;
      }
    }
  }
  return own;
}

void add(StateDict& all, int64_t rank, const StateDict& own) {
  const std::string prefix = std::to_string(rank) + "/";
  for (const auto& [name, value] : own.numbers) all.numbers[prefix + name] = value;
  for (const auto& [name, tensor] : own.tensors) all.tensors[prefix + name] = tensor;
}

/// The entries under `prefix`, with the prefix removed from their names.
template <class Values>
Values under(const Values& all, const std::string& prefix) {
  Values found;
  for (auto item = all.lower_bound(prefix); item != all.end(); ++item) {
    if (!item->first.starts_with(prefix)) break;
    found[item->first.substr(prefix.size())] = item->second;
  }
  return found;
}

void load_optimizer(Job& job, const std::map<std::string, at::Tensor>& own) {
  OptimizerState state = job.optimizer->state();
  for (OptimizerState::Group& group : state.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      parameter.slots.clear();
      for (const auto& [name, tensor] : under(own, parameter.name + "/")) {
        parameter.slots.push_back({name, tensor});
      }
    }
  }
  job.optimizer->load(state);
}

}  // namespace

void add_rank_states(const Job& job, TrainState& state) {
  Communicator& group = *job.mesh.world;
  const StateDict own = own_state(job);
  if (own.tensors.empty()) return;  // the same on all ranks
  const std::vector<StateDict> states = gather_states(group, own);
  if (!job.is_main) return;
  StateDict& all = state.sections[kRanksSection];
  all.numbers[kWorld] = static_cast<double>(job.num_ranks);
  for (size_t rank = 0; rank < states.size(); ++rank) {
    add(all, static_cast<int64_t>(rank), states[rank]);
  }
}

void add_own_state_for_all(const Job& job, TrainState& state) {
  const StateDict own = own_state(job);
  if (own.tensors.empty()) return;
  StateDict& all = state.sections[kRanksSection];
  for (int64_t rank = 0; rank < job.num_ranks; ++rank) add(all, rank, own);
}

bool restore_rank_state(Job& job, const TrainState& state) {
  const auto found = state.sections.find(kRanksSection);
  if (found == state.sections.end()) return true;
  const StateDict& all = found->second;
  const auto world = all.numbers.find(kWorld);
  if (world == all.numbers.end() || world->second != static_cast<double>(job.num_ranks)) {
    return false;
  }
  const std::string prefix = std::to_string(job.rank) + "/";
  if (!syncs_gradients(job) && all.numbers.contains(prefix + kLocal)) {
    load_optimizer(job, under(all.tensors, prefix + kOptimizer));
  }
  for (size_t i = 0; i < job.optimizers.size(); ++i) {
    StateDict strategy;
    strategy.numbers = under(all.numbers, prefix + strategy_prefix(i));
    strategy.tensors = under(all.tensors, prefix + strategy_prefix(i));
    if (!strategy.tensors.empty()) job.optimizers[i].strategy->load(strategy);
  }
  return true;
}

std::vector<Parameter> model_of_all_ranks(const Job& job) {
  std::vector<Parameter> model = job.parameters;
  for (const OptimizerBinding& binding : job.optimizers) {
    put_evaluation_weights(*binding.optimizer, model);
  }
  model.insert(model.end(), job.buffers.begin(), job.buffers.end());
  if (syncs_gradients(job)) return model;
  for (const OptimizerBinding& binding : job.optimizers) binding.strategy->swap_in_average();
  for (Parameter& item : model) item.local = item.local.detach().clone();
  for (const OptimizerBinding& binding : job.optimizers) binding.strategy->restore_local();
  return model;
}

}  // namespace accel
