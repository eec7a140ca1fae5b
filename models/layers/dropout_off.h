// Training without dropout.
#pragma once

namespace accel {

class Model;

/// While it lives, a model in training mode has no dropout, neither its own nor its adapters'.
class DropoutOff {
 public:
  explicit DropoutOff(Model& model);
  ~DropoutOff();
  DropoutOff(const DropoutOff&) = delete;
  DropoutOff& operator=(const DropoutOff&) = delete;

 private:
  Model& model_;
};

}  // namespace accel
