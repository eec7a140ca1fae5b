// Activation offloading: inputs of checkpointed blocks in memory of the host.
#pragma once

#include <c10/core/Stream.h>

#include <memory>
#include <optional>

#include "core/api/block.h"

namespace accel {

/// Copies inputs of an accelerator's blocks to pinned memory of the host while the block computes,
/// and back while the block that ran after it is recomputed, on a separate stream. The device
/// holds two inputs at a time. Inputs on the CPU stay where they are. For the passes of one thread
/// at a time. As `cpu_checkpointing` of DeepSpeed (Rajbhandari et al., "ZeRO", SC 2020, 6.2).
class OffloadedInputs final : public BlockInputs {
 public:
  std::function<at::Tensor()> store(const at::Tensor& input) override;

 private:
  class Entry;

  std::optional<c10::Stream> copies_;  ///< of the device of the first input
  std::weak_ptr<Entry> last_;
};

}  // namespace accel
