// Check that the tensors which a job holds throughout fit into this machine's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recipe/diagnostic.h"
#include "runner/plan/plan.h"

namespace accel {

/// The memory of this machine and the ranks on it.
struct MachineMemory {
  int64_t available = 0;  ///< bytes; 0: unknown
  int64_t ranks = 1;
};

/// Whether the recipe's models may exceed the machine's memory, by a rough bound that needs no
/// libtorch.
bool may_exceed(const Node& resolved, const MachineMemory& machine);

/// Throws LocatedError (kMemory) when weights, gradients and optimizer state of the ranks on this
/// machine exceed its available memory. For a job whose data is open and whose model is not built;
/// all ranks call it. Does nothing on a GPU, and where may_exceed() is false.
void check_memory(const Job& job, const MachineMemory& machine);

/// A warning for a recipe whose training this machine cannot hold. Its data is not opened: sizes
/// that the recipe leaves to the data count as small ones.
std::vector<Diagnostic> memory_warnings(const RecipeOptions& recipe, const Node& resolved,
                                        const Registry& registry, const MachineMemory& machine);

}  // namespace accel
