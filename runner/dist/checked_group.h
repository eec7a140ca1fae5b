// A group that makes sure, before each collective, that all ranks mean the same one.
#pragma once

#include <memory>

#include "runner/dist/communicator.h"

namespace accel {

/// Costs one more small collective for each. Where ranks differ in the operation, its purpose, or
/// the type or shape of the tensor, all of them throw Error (kRank) that tells what each wanted;
/// without it they would hang, or mix up what they send.
std::unique_ptr<Communicator> make_checked(std::unique_ptr<Communicator> group);

}  // namespace accel
