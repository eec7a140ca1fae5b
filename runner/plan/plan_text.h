// A plan for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/plan/advice.h"
#include "runner/plan/plan.h"

namespace accel {

/// "512 B", "1.5 MiB", "12 GiB".
std::string bytes_text(int64_t bytes);

/// "1.2 GFLOP".
std::string flop_text(double flops);

struct PlanPage {
  std::string name;         ///< the recipe's
  std::string model;        ///< its type
  std::vector<Plan> plans;  ///< by number of ranks
  int64_t process = 0;      ///< bytes that each rank takes besides
  int64_t available = 0;    ///< bytes of this machine; 0: not known
  double step_seconds = 0;  ///< of a step as the first plan has it; 0: not known
};

/// What a rank takes in all.
int64_t rank_bytes(const PlanPage& page, const Plan& plan);

/// Whether this machine holds one rank of each plan.
bool fits(const PlanPage& page);

std::vector<std::string> plan_lines(const PlanPage& page);

/// Of a plan that does not fit.
std::vector<std::string> advice_lines(const std::vector<Advice>& advice);

}  // namespace accel
