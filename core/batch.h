// What a step computes on: the one light libtorch header of this layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace accel {

/// Samples stacked along dimension 0.
struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
  std::vector<int64_t> ids;  ///< position of each sample in its dataset
  /// Of samples of unequal length: how many of a row's tokens are the sample's, int64 [batch]. The
  /// rest fill the row (DataShape::padding). Undefined when all samples have one shape.
  at::Tensor lengths = {};
  at::Tensor segments = {};  ///< which text each token belongs to, like `inputs`; may be undefined

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
};

/// A tensor and the name a checkpoint knows it by.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// The state of a component as a checkpoint keeps it. Doubles come back bit for bit.
struct StateDict {
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  std::map<std::string, at::Tensor> tensors;
};

}  // namespace accel
