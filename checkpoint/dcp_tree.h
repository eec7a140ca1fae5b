// State dicts of distributed checkpoints: flattening and its inverse.
#pragma once

#include <string>

#include "formats/tensors/dcp.h"

namespace accel {

/// Flattens `tree` under the key `top`, as torch.distributed.checkpoint does: each leaf is named by
/// its path. Lists are leaves, except lists of dicts.
DcpState dcp_of(const std::string& top, const Value& tree);

/// The state_dict of an optimizer from its flattened form. Throws FormatError.
Value optimizer_of_dcp(const DcpState& state);

}  // namespace accel
