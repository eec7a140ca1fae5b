// What this machine is called.
#pragma once

#include <string>

namespace accel {

/// "localhost" when it has no name.
std::string host_name();

}  // namespace accel
