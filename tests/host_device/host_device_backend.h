// Collectives between host devices.
#pragma once

#include "parallel/c10d_group.h"

namespace accel {

/// Gloo on the memory of host devices.
BackendMaker host_device_backend();

}  // namespace accel
