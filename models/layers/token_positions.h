// Token positions that a model's head reads.
#pragma once

#include "core/api/batch.h"

namespace accel {

enum class TokenPositions { kAll, kFirst };

/// Positions that the last block must compute if only `read` is read; the others have no effect.
/// With reference kernels these are all, so that dropout draws the same numbers as PyTorch's models
/// and products have the same shapes.
TokenPositions positions_to_compute(TokenPositions read);

/// x [batch, length, width], or its first position [batch, 1, width].
at::Tensor select_cls_token(const at::Tensor& x, TokenPositions places);

}  // namespace accel
