// `--device-map`, `--max-memory` and `--offload`: placement of a trained model's weights in memory
// and on the disk.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/placement/device_map.h"
#include "models/placement/weight_stream.h"

namespace CLI {
class App;
}

namespace accel {

class Model;

struct PlacementFlags {
  std::string device_map;  ///< a name, or a file; "": as in memory, or `auto` with a limit
  std::string max_memory;  ///< "cpu=4GiB,disk=20GiB"

  std::string offload;  ///< a folder; "": none

  bool is_set() const { return !device_map.empty() || !max_memory.empty() || !offload.empty(); }
};

/// `--device-map` and `--max-memory`.
void add_device_flags(CLI::App& verb, PlacementFlags& to);
/// Those and `--offload`.
void add_placement_flags(CLI::App& verb, PlacementFlags& to);

/// Throws Error(kRecipe) for flags with `--mesh`.
void refuse_placement_on_mesh(const PlacementFlags& flags);

/// What the flags say, without a model. Throws Error(kRecipe).
struct PlacementRequest {
  std::string kind;                            ///< "auto", ..., or the file; "": none
  MaxMemory limits;                            ///< with the CPU
  std::map<std::string, std::string> devices;  ///< of a file
  std::string offload;                         ///< a folder; "": none
};
PlacementRequest placement_request(const PlacementFlags& flags);

/// "'--max-memory'" as DEVICE=SIZE,... Throws Error(kRecipe).
MaxMemory parse_max_memory(const std::string& list);

/// Prints where the weights of `model`, which may be fake, would be, with the bytes that a token
/// reads and its seconds by `disk_rate`, in bytes a second; 0: unknown. Throws as
/// PlacedWeights::place().
void print_placement(Model& model, const PlacementRequest& request, std::ostream& to,
                     const std::function<double()>& disk_rate);

/// Bytes a second of reading these bytes of mapped files from the disk, at most 256 MiB of them.
double disk_rate_of(std::vector<std::span<const std::byte>> mapped);

/// The streaming of a placed model's weights, with its figures.
class PlacedWeights {
 public:
  /// Places the weights of `model`, which are in mapped files, or with an offload folder may be
  /// deferred, and prints the table on standard
  /// error. Null: nothing is on the disk. Throws Error(kRecipe) for limits that cannot be kept.
  static std::unique_ptr<PlacedWeights> place(Model& model, const PlacementRequest& request);

  /// Prints predicted and measured seconds of a pass, and the rate of the disk.
  void report() const;

 private:
  std::unique_ptr<WeightStream> stream_;
  int64_t pass_bytes_ = 0;
  double disk_rate_ = 0;  ///< bytes a second
};

}  // namespace accel
