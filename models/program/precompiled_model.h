// Precompiled models.
#pragma once

#include "core/api/model.h"

namespace accel {

/// Computes on the CPU in compiled types; ignores autocast.
class PrecompiledModel : public BatchModel {};

}  // namespace accel
