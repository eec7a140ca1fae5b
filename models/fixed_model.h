// Models whose code is compiled already.
#pragma once

#include "core/model.h"

namespace accel {

/// Computes on the CPU, in the types it was compiled for, whatever autocast says.
class FixedModel : public BatchModel {};

}  // namespace accel
