// Search for the mesh with the fastest estimated step.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "runner/plan/step_time.h"

namespace accel {

/// A mesh with a stage of `accelerator.fsdp`.
struct MeshChoice {
  MeshSizes sizes;
  int64_t stage = 0;
  bool drops_pipeline = false;  ///< leaves out options of pipelines, which need 'pp'

  /// As on a command line.
  std::vector<std::string> overrides() const;
};

/// All meshes of `ranks` ranks with tp inside a machine, each with stages 0, 1 and 3; also with
/// shards inside a machine and replicas over machines.
std::vector<MeshChoice> mesh_choices(int64_t ranks, int64_t ranks_per_machine);

struct MeshEstimate {
  MeshChoice choice;
  StepTime time;
  double memory = 0;  ///< bytes on the processor
  double flops = 0;   ///< per second and rank
  double tokens = 0;  ///< per second and rank; 0 unless samples are sequences
};

struct MeshSearch {
  int64_t ranks = 1;
  Hardware hardware;
  std::vector<MeshEstimate> fitting;  ///< the fastest first
  int64_t too_large = 0;              ///< meshes that exceed the memory
  int64_t slower = 0;  ///< not planned, since a lower bound exceeds the last of the `top`
  std::map<std::string, int64_t> refused;  ///< meshes that do not suit the recipe, by reason
};

struct MeshRequest {
  int64_t ranks = 1;
  Hardware hardware;
  ComputeMode mode;
  PlannedMemory whole;  ///< of a single rank
  /// Those that must be found. Others are not planned if a lower bound of their time shows that
  /// they are slower.
  size_t top = std::numeric_limits<size_t>::max();
  bool has_pipeline_options = false;  ///< the recipe has a schedule of its own
};

/// Plans the recipe with these overrides. Throws Error for those that it refuses.
using PlanWith = std::function<Plan(const std::vector<std::string>& overrides)>;

/// The `top` fastest meshes, and others that were planned on the way. The meshes of a (tp, pp, cp)
/// compute the same, so that the first plan of them bounds the time of the others from below: those
/// are planned in the order of their bounds until one exceeds the time of the last of the `top`.
MeshSearch search_meshes(const MeshRequest& request, const PlanWith& plan_with);

/// Table of the `most` fastest meshes, at most the request's `top`, and the command for the first.
/// `recipe`: its path, and its overrides in quotes.
std::vector<std::string> mesh_lines(const MeshSearch& search, const std::string& recipe,
                                    size_t most);

}  // namespace accel
