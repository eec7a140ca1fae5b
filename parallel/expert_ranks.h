// Exchange of tokens between the ranks of expert parallelism.
#pragma once

#include <memory>

#include "core/api/expert_parallel.h"
#include "parallel/communicator.h"

namespace accel {

/// The ranks of `group`, Mesh::expert.
std::shared_ptr<const ExpertRanks> make_expert_ranks(const std::shared_ptr<Communicator>& group);

}  // namespace accel
