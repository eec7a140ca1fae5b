// A batch of samples, and the checkpointed state of a component.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/api/parameter.h"
#include "core/base/array.h"

namespace accel {

/// Samples stacked along dimension 0.
struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
  std::vector<int64_t> ids;  ///< position of each sample in its dataset
  /// Tokens of each row before its padding, int64 [batch]. Undefined when all samples have one
  /// shape.
  at::Tensor lengths = {};
  at::Tensor segments = {};  ///< segment id of each token, like `inputs`; may be undefined
  /// The targets of a batch on a device, in host memory. Undefined on the CPU, and where a task has
  /// made the targets on the device. Who changes `targets` changes these, too.
  at::Tensor host_targets = {};

  /// The targets for the host to read: if it has them, it does not wait for a device.
  const at::Tensor& readable_targets() const {
    return host_targets.defined() ? host_targets : targets;
  }
  int64_t size() const { return static_cast<int64_t>(ids.size()); }
};

/// "[2, 3]"
inline std::string shape_text(const at::Tensor& tensor) {
  return to_string(Shape(tensor.sizes().begin(), tensor.sizes().end()));
}

/// Checkpointed state of a component. Doubles are restored bit for bit.
struct StateDict {
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  std::map<std::string, at::Tensor> tensors;
};

}  // namespace accel
