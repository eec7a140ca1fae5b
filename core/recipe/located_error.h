// An error at a value of the recipe which is valid, such as a size beyond the memory.
#pragma once

#include <utility>

#include "core/recipe/diagnostic.h"

namespace accel {

/// Printed as a recipe's errors are, with another exit code.
class LocatedError : public Error {
 public:
  LocatedError(ExitCode code, Diagnostic problem)
      : Error(code, problem.message, problem.hint), problem_(std::move(problem)) {}
  const Diagnostic& problem() const { return problem_; }

 private:
  Diagnostic problem_;
};

}  // namespace accel
