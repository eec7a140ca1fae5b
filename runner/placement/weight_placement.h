// Placement of a trained model's weights on a GPU, in memory and on the disk.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "models/placement/device_stream.h"
#include "models/placement/weight_stream.h"
#include "runner/placement/placement_request.h"

namespace accel {

class Model;

/// Prints where the weights of `model`, which may be fake, would be, with the bytes that a token
/// reads and its seconds by `disk_rate`, in bytes a second; 0: unknown. Throws as
/// PlacedWeights::place().
void print_placement(Model& model, const PlacementRequest& request, std::ostream& to,
                     const std::function<double()>& disk_rate);

/// Bytes a second of reading these bytes of mapped files from the disk, at most 256 MiB of them.
double disk_rate_of(std::vector<std::span<const std::byte>> mapped);

/// What streams weights to the device that computes.
struct WeightStreams {
  std::unique_ptr<WeightStream> disk;    ///< null: nothing is on the disk
  std::unique_ptr<DeviceStream> device;  ///< null: the CPU computes
  int64_t disk_bytes = 0;                ///< that a pass reads
  double disk_rate = 0;                  ///< bytes a second
};

/// The streaming of a placed model's weights, with its figures.
class PlacedWeights {
 public:
  /// Places the weights of `model` for passes on `device`, choose_inference_device()'s, and prints
  /// the table on standard error. The weights are in mapped files, or with an offload folder may
  /// be deferred. Null: all are on `device`. Throws Error(kRecipe) for limits that cannot be kept.
  static std::unique_ptr<PlacedWeights> place(Model& model, const PlacementRequest& request,
                                              at::Device device);

  /// Prints what passes copied to the GPU, and of reading from the disk the predicted and measured
  /// seconds of a pass and the rate.
  void report() const;

 private:
  explicit PlacedWeights(WeightStreams streams) : streams_(std::move(streams)) {}

  WeightStreams streams_;
};

}  // namespace accel
