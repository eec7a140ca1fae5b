// Text of a plan for the terminal, and advice for a recipe that does not fit into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/plan/plan.h"

namespace accel {

struct Advice {
  std::vector<std::string> overrides;  ///< as on a command line
  std::string price;                   ///< their drawback
  int64_t bytes = 0;                   ///< memory of a rank with them
};

/// The plan with these overrides; nothing when the recipe is invalid with them.
using Replan = std::function<std::optional<Plan>(const std::vector<std::string>& overrides)>;

/// Up to three changes, cheapest first, each of which reduces the memory of a rank to `bytes`,
/// `process` of them fixed. If no single change suffices, their combination, or nothing.
std::vector<Advice> advise(const RecipeOptions& recipe, const Plan& plan, int64_t process,
                           int64_t bytes, const Replan& replan);

/// Says that a rank of `bytes` can hold what is offloaded to a disk, or which lower stage of
/// `accelerator.fsdp` it can hold too; "" where neither fits.
std::string lower_stage_line(const RecipeOptions& recipe, int64_t process, int64_t bytes,
                             const Replan& replan);

struct PlanPage {
  std::string name;         ///< the recipe's
  std::string model;        ///< its type
  std::vector<Plan> plans;  ///< by number of ranks
  int64_t process = 0;      ///< bytes of the process of each rank without its tensors
  int64_t available = 0;    ///< bytes of this machine; 0: unknown
  double step_seconds = 0;  ///< of a step with the first plan's batches; 0: unknown
};

/// Total memory of a rank.
int64_t rank_bytes(const PlanPage& page, const Plan& plan);

/// Whether one rank of each plan fits on this machine.
bool fits(const PlanPage& page);

std::vector<std::string> plan_lines(const PlanPage& page);

/// For a plan that does not fit.
std::vector<std::string> advice_lines(const std::vector<Advice>& advice);

}  // namespace accel
