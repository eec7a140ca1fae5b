// `--device`, `--device-map`, `--max-memory` and `--offload`: where inference computes and where
// the weights are.
#pragma once

#include <c10/core/Device.h>

#include <map>
#include <string>

#include "models/placement/device_map.h"
#include "train/recipe/recipe_values.h"

namespace CLI {
class App;
}

namespace accel {

/// The GPU of a process, in limits and device maps.
inline constexpr auto kGpuDevice = "0";

/// Whether a word is a number of at most nine digits.
bool is_number(const std::string& word);

struct PlacementFlags {
  std::string device = "auto";
  std::string device_map;  ///< a name, or a file; "": as in memory, or `auto` with a limit
  std::string max_memory;  ///< "cpu=4GiB,disk=20GiB"
  std::string offload;     ///< a folder; "": none

  bool is_set() const { return !device_map.empty() || !max_memory.empty() || !offload.empty(); }
};

/// `--device`.
void add_device_flag(CLI::App& verb, PlacementFlags& to);
/// `--device-map` and `--max-memory`.
void add_device_map_flags(CLI::App& verb, PlacementFlags& to);
/// All.
void add_placement_flags(CLI::App& verb, PlacementFlags& to);

/// Throws Error(kRecipe) for flags with `--mesh`.
void refuse_placement_on_mesh(const PlacementFlags& flags);

/// What the flags say, without a model.
struct PlacementRequest {
  DeviceChoice device = DeviceChoice::kAuto;
  std::string kind;                            ///< "auto", ..., or the file; "": none
  MaxMemory limits;                            ///< with the CPU
  bool has_limits = false;                     ///< of `--max-memory`
  std::map<std::string, std::string> devices;  ///< of a file
  std::string offload;                         ///< a folder; "": none

  /// Whether a limit or the file has the GPU.
  bool names_gpu() const;
  /// Bytes; -1: none.
  int64_t limit_of(const std::string& device) const;
};
/// Throws Error(kRecipe).
PlacementRequest placement_request(const PlacementFlags& flags);

/// "'--max-memory'" as DEVICE=SIZE,... Throws Error(kRecipe).
MaxMemory parse_max_memory(const std::string& list);

/// The device where inference computes: the CPU where the request places weights and not on the
/// GPU. Adds the limit of a GPU that has none, 90 % of its free memory. Throws Error(kRecipe) where
/// flags contradict each other and for a GPU that is not there.
at::Device choose_inference_device(PlacementRequest& request);

}  // namespace accel
