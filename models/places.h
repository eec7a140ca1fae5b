// Which places of a sequence the rest of a model reads.
#pragma once

#include "core/batch.h"

namespace accel {

enum class Places { kAll, kFirst };

/// What a model's last block is to compute, where only `read` of its output is read: nothing
/// depends on the others, and they take as long. With reference kernels it is all of them, since
/// dropout then draws as PyTorch's models do and products have their shapes.
Places places_to_compute(Places read);

/// x [batch, length, width], or its first place [batch, 1, width].
at::Tensor at_places(const at::Tensor& x, Places places);

}  // namespace accel
