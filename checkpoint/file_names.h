// Names of a checkpoint's files and of the models in them. Free of libtorch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accel {

constexpr auto kModelFile = "model.safetensors";
constexpr auto kPickledModelFile = "pytorch_model.bin";  // of other programs, instead of kModelFile
constexpr auto kStateFile = "accel_run.safetensors";     // see layout.h
constexpr auto kOptimizerFile = "optimizer.bin";
constexpr auto kSchedulerFile = "scheduler.bin";
constexpr auto kScalerFile = "scaler.pt";
constexpr auto kRandomStatesFile = "random_states_0.pkl";
inline std::string random_states_file(size_t rank) {
  return "random_states_" + std::to_string(rank) + ".pkl";
}
/// A section "custom/<n>" is written to custom_checkpoint_<n>.pkl as well, the file of Accelerate's
/// register_for_checkpointing().
constexpr std::string_view kCustomSection = "custom/";
constexpr auto kCustomFilePrefix = "custom_checkpoint_";
// Folders of FSDP's SHARDED_STATE_DICT, followed by a number.
constexpr auto kShardedModelPrefix = "pytorch_model_fsdp_";
constexpr auto kShardedOptimizerPrefix = "optimizer_";
/// The folder of callbacks' sharded tensors, of accel-run alone.
constexpr auto kShardedStateFolder = "accel_run_fsdp_0";

/// "optimizer.bin", "optimizer_1.bin", ...
inline std::string numbered_file(const std::string& name, size_t number) {
  if (number == 0) return name;
  const size_t dot = name.find('.');
  return name.substr(0, dot) + "_" + std::to_string(number) + name.substr(dot);
}

/// {"critic", "fc.weight"} of "critic/fc.weight"; the recipe's model has no name.
inline std::pair<std::string, std::string> split_name(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return {"", name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

/// The further models of the tensor names, such as 'critic' of "critic/fc.weight", in the order of
/// their files.
inline std::vector<std::string> further_models(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const std::string model = split_name(name).first;
    if (!model.empty() && std::find(out.begin(), out.end(), model) == out.end()) {
      out.push_back(model);
    }
  }
  return out;
}

}  // namespace accel
