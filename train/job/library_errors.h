// Errors of allocations and of libtorch as errors of this program, at the option that caused them.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "core/recipe/node.h"
#include "train/job/job.h"

namespace accel {

/// Why an allocation failed, with its bytes where they are known; none for other exceptions.
std::optional<std::string> size_failure(const std::exception& error);

/// Throws LocatedError (memory) for `what`, such as "the model 'mlp'", if `error` is of an
/// allocation. Its position is the largest whole number in the section `name` of the recipe.
void check_size_failure(const std::exception& error, const std::string& what, const Node& recipe,
                        const std::string& name);

/// Throws the error for an exception of step `step`: LocatedError (memory) for a failed allocation,
/// DivergedError for a number beyond the range of a tensor, LocatedError (data) for batch norm over
/// one value per channel, Error for other errors of libtorch.
/// Returns for exceptions of the program itself.
void check_step_error(const Job& job, int64_t step, const std::exception& error);

}  // namespace accel
