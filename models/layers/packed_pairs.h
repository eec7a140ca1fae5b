// Packed pairs of encoder-decoders: several sources and their targets in one sample.
#pragma once

namespace accel {

/// Implemented by encoder-decoders for packed pairs: Batch::segments numbers the sources of a row
/// from 1, and a kIgnoredTarget is between their targets.
class PacksPairs {
 public:
  virtual ~PacksPairs() = default;
};

}  // namespace accel
