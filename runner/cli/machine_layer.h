// Machines of a job, from the variables of its scheduler, in a composed recipe.
#pragma once

#include "core/base/environment.h"
#include "core/recipe/node.h"

namespace accel {

/// Adds `accelerator.num_machines`, `machine_rank`, `main_process_ip`, `main_process_port` and
/// `num_processes` as far as a scheduler sets them. A different value in the recipe is an error at
/// its line that names the variable.
void add_machines(Node& recipe, const EnvironmentLookup& lookup, Diagnostics& problems);

/// In a rank of an elastic run (`accelerator.min_machines`): sets the machines and ranks that the
/// launchers have started, which may be fewer than the recipe's.
void fit_to_ranks(Node& recipe, const EnvironmentLookup& lookup);

}  // namespace accel
