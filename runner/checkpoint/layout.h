// The files of a checkpoint, and which tensors of a TrainState go where.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/checkpoint/train_state.h"

namespace accel {

constexpr auto kModelFile = "model.safetensors";
constexpr auto kPickledModelFile = "pytorch_model.bin";  // in its place, of other programs
constexpr auto kPartsFile = "accel_run.safetensors";
constexpr auto kOptimizerFile = "optimizer.bin";
constexpr auto kSchedulerFile = "scheduler.bin";
constexpr auto kScalerFile = "scaler.pt";
constexpr auto kRandomStatesFile = "random_states_0.pkl";
/// That of any rank.
inline std::string random_states_file(size_t rank) {
  return "random_states_" + std::to_string(rank) + ".pkl";
}
/// A part of this name and a number is in custom_checkpoint_<number>.pkl as well, where Accelerate
/// looks for what a script has registered.
constexpr std::string_view kCustomPart = "custom/";
constexpr auto kCustomFiles = "custom_checkpoint_";  // and the number, and ".pkl"
// Of FSDP's SHARDED_STATE_DICT, in their place.
constexpr auto kShardedModelFolders = "pytorch_model_fsdp_";  // and the number
constexpr auto kShardedOptimizerFolder = "optimizer_";        // likewise

/// Each state dict and the prefix of its tensors' names in kPartsFile: one list, so that those who
/// write, read or count them cannot forget one.
template <class State>
auto sections_of(State& state) {
  std::vector<std::pair<std::string, decltype(&state.schedule)>> out;
  out.emplace_back("schedule/", &state.schedule);
  if (state.scaler) out.emplace_back("scaler/", &*state.scaler);
  for (auto& [name, part] : state.parts) out.emplace_back("parts/" + name + "/", &part);
  return out;
}

}  // namespace accel
