// A weight of which ranks gather the values of fp8.
#pragma once

#include <ATen/core/Tensor.h>

namespace accel {

/// Of a weight that is divided over ranks, and a linear layer that reads it. While `inverse_scale`,
/// float32 [], is defined, the weight's tensor has values of float8_e4m3fn in autocast's type, and
/// the weight in fp8 is their product with `inverse_scale`; else the tensor has the weight.
struct GatheredWeight {
  at::Tensor inverse_scale;
};

}  // namespace accel
