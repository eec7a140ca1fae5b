// Tasks whose passes can be recorded.
#pragma once

namespace accel {

/// A task whose loss launches the same work in each step, for batches of one shape: it waits for no
/// result, and no number that it computes with on the host changes.
class HasFixedPasses {
 public:
  virtual ~HasFixedPasses() = default;
  virtual bool has_fixed_passes() const = 0;
};

}  // namespace accel
