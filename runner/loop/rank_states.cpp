#include "runner/loop/rank_states.h"

#include <string>
#include <utility>

#include "runner/dist/gather_states.h"

namespace accel {
namespace {

/// Of the `part`-th of Job::trained.
std::string strategy_prefix(size_t part) {
  return "strategy" + (part > 0 ? "." + std::to_string(part) : std::string()) + "/";
}

constexpr auto kOptimizer = "optimizer/";
constexpr auto kWorld = "world";
constexpr auto kLocal = "local";  ///< the optimizer's state is a rank's own

/// This rank's own, sharing memory.
StateDict own_state(const Job& job) {
  StateDict own;
  for (size_t i = 0; i < job.trained.size(); ++i) {
    const StateDict strategy = job.trained[i].strategy->state();
    const std::string prefix = strategy_prefix(i);
    for (const auto& [name, value] : strategy.numbers) own.numbers[prefix + name] = value;
    for (const auto& [name, tensor] : strategy.tensors) own.tensors[prefix + name] = tensor;
  }
  if (!is_local(job)) return own;
  own.numbers[kLocal] = 1;
  for (const OptimizerState::Group& group : job.optimizer->state().groups) {
    for (const OptimizerState::Parameter& parameter : group.parameters) {
      for (const NamedTensor& slot : parameter.slots) {
        own.tensors[kOptimizer + parameter.name + "/" + slot.name] = slot.tensor;
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

/// The names that begin with `prefix`, without it.
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
    for (OptimizerState::Parameter& parameter : group.parameters) {
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
  Communicator& group = *job.group;
  const StateDict own = own_state(job);
  if (own.tensors.empty()) return;  // so it is on all ranks
  const std::vector<StateDict> states = gather_states(group, own);
  if (!group.is_main()) return;
  StateDict& all = state.parts[kRanksPart];
  all.numbers[kWorld] = static_cast<double>(group.world());
  for (size_t rank = 0; rank < states.size(); ++rank) {
    add(all, static_cast<int64_t>(rank), states[rank]);
  }
}

void add_own_state_for_all(const Job& job, TrainState& state) {
  const StateDict own = own_state(job);
  if (own.tensors.empty()) return;
  StateDict& all = state.parts[kRanksPart];
  for (int64_t rank = 0; rank < job.group->world(); ++rank) add(all, rank, own);
}

bool restore_rank_state(Job& job, const TrainState& state) {
  const auto found = state.parts.find(kRanksPart);
  if (found == state.parts.end()) return true;
  const StateDict& all = found->second;
  const auto world = all.numbers.find(kWorld);
  if (world == all.numbers.end() || world->second != static_cast<double>(job.group->world())) {
    return false;
  }
  const std::string prefix = std::to_string(job.group->rank()) + "/";
  if (is_local(job) && all.numbers.contains(prefix + kLocal)) {
    load_optimizer(job, under(all.tensors, prefix + kOptimizer));
  }
  for (size_t i = 0; i < job.trained.size(); ++i) {
    StateDict strategy;
    strategy.numbers = under(all.numbers, prefix + strategy_prefix(i));
    strategy.tensors = under(all.tensors, prefix + strategy_prefix(i));
    if (!strategy.tensors.empty()) job.trained[i].strategy->load(strategy);
  }
  return true;
}

std::vector<NamedTensor> model_of_all_ranks(const Job& job) {
  std::vector<NamedTensor> model = job.parameters;
  model.insert(model.end(), job.buffers.begin(), job.buffers.end());
  if (!is_local(job)) return model;
  for (const TrainedPart& part : job.trained) part.strategy->unite();
  for (NamedTensor& item : model) item.tensor = item.tensor.detach().clone();
  for (const TrainedPart& part : job.trained) part.strategy->separate();
  return model;
}

}  // namespace accel
