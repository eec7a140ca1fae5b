// What a causal model needs to keep packed texts apart.
#pragma once

#include <optional>

#include "core/batch.h"

namespace accel {

struct TextsApart {
  at::Tensor positions;  ///< int64 [batch, length], from 0 in each text
  at::Tensor mask;       ///< bool [batch, 1, length, length]: which tokens may be seen
};

/// `segments` is int64 [batch, length]; a text is a run of one number.
TextsApart texts_apart(const at::Tensor& segments);

/// A mask as attention takes it: none where it is undefined.
inline std::optional<at::Tensor> given(const at::Tensor& mask) {
  return mask.defined() ? std::optional(mask) : std::nullopt;
}

}  // namespace accel
