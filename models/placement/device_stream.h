// Streaming of weights from the host's memory to a GPU: the next blocks are copied while one
// computes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/api/block.h"
#include "models/placement/locked_memory.h"
#include "models/placement/region_ring.h"
#include "models/placement/weight_stream.h"

namespace accel {

/// A parameter and its values, contiguous in memory of the host: a tensor of its own, so that the
/// parameter can be on the GPU.
struct HostWeight {
  at::Tensor parameter, values;
};

/// The weights outside of the GPU of a block, or of the head, which are copied together.
struct DeviceUnit {
  Block* block = nullptr;  ///< null: after the last block
  std::vector<HostWeight> weights;
  std::optional<size_t> on_disk = {};  ///< its unit of a WeightStream, which has some of the values
};

/// Copies the units in the order of passes on a stream of the GPU, and the first ones of the next
/// pass behind the last. They are in `capacity` bytes of the GPU's memory, at least those of the
/// largest unit. The parameters are on the GPU, without memory unless their block computes. Sets
/// the hooks of the blocks, which outlive it. No gradients.
class DeviceStream {
 public:
  /// `disk`: the stream of units on the disk, which outlives it and has no other user; null: there
  /// are none.
  DeviceStream(const std::vector<DeviceUnit>& units, at::Device device, int64_t capacity,
               WeightStream* disk);
  /// The parameters have the host's values again.
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  /// Bytes that a pass copies.
  int64_t pass_bytes() const;
  int64_t passes() const { return passes_; }
  /// The GPU's memory for units.
  int64_t capacity() const { return ring_.capacity(); }

 private:
  class Hooks;
  class Unit;
  /// A unit that is on the GPU or being copied.
  struct Loaded {
    size_t unit = 0;
    int64_t region = 0;
    c10::Event copied;
  };

  void before(size_t unit);
  void after(size_t unit);
  /// Begins to copy the next unit. False: there is no room for it.
  bool load();
  /// Gives the first loaded unit to the parameters.
  void use();
  void free();
  /// Copies what needs no wait on the disk.
  void load_ahead();

  WeightStream* disk_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::unique_ptr<Hooks>> hooks_;
  std::unique_ptr<LockedMemory> disk_memory_;
  RegionRing ring_;
  at::Tensor memory_;  ///< U8 [capacity], on the GPU
  c10::Stream copies_;
  std::deque<Loaded> loaded_;  ///< from the unit that a pass uses next on
  size_t to_load_ = 0;         ///< unit behind them
  bool head_in_use_ = false;
  int64_t passes_ = 0;
};

}  // namespace accel
