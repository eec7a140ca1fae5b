#include "models/layers/token_positions.h"

#include "kernels/choice.h"

namespace accel {

TokenPositions positions_to_compute(TokenPositions read) {
  return allocates_as_fused() ? read : TokenPositions::kAll;
}

at::Tensor select_cls_token(const at::Tensor& x, TokenPositions places) {
  return places == TokenPositions::kFirst ? x.narrow(/*dim=*/1, /*start=*/0, /*length=*/1) : x;
}

}  // namespace accel
