// libtorch takes half a second to load, whatever of it is used. The executable therefore starts
// with stand-ins for its libraries, which only hold the names it refers to: enough for every verb
// that reads recipes and trains nothing. See cmake/StandIn.cmake.
#pragma once

#include <string>
#include <vector>

namespace accel {

/// Whether libtorch itself is loaded. If so, the environment is as the user has it from then on,
/// without what helped to find libtorch.
bool torch_is_there();

/// Starts this program anew, as the same process, with libtorch itself; returns when that is so
/// already. To be called before a tensor is touched and before anything has a side effect.
/// Throws Error when libtorch cannot be found.
void require_torch(const std::vector<std::string>& argv);

}  // namespace accel
