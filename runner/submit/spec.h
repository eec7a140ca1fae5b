// The job that a recipe becomes on a cluster, and its text for each scheduler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/recipe/node.h"
#include "runner/submit/submit_section.h"

namespace accel {

/// A validated recipe and its resources.
struct SubmittedJob {
  std::string name;     ///< of the run
  std::string recipe;   ///< resolved, as YAML, with references to secrets
  std::string folder;   ///< absolute: the working folder of the submission
  std::string run_dir;  ///< relative to the working folder of the job
  std::string stamp;    ///< of the submission, for schedulers whose names are used once
  int64_t ranks_per_node = 1;
  SubmitSection section;

  /// The value of `submit.extra`; null: none.
  const Node* extra(const char* key) const {
    const Node::Entry* entry = section.extra.find(key);
    return entry ? &entry->node : nullptr;
  }
};

/// Files of a submission, in the run's folder.
constexpr auto kSubmitFolder = "submit";
constexpr auto kSubmittedRecipe = "recipe.yaml";

/// Name of the spec's file: "job.sh", "job.yaml" or "job.json".
std::string spec_file(SubmitTarget to);

/// What is handed to the scheduler: an sbatch script, manifests of Kubernetes or a request of
/// SageMaker. It has no secret, and depends on nothing but its argument.
std::string spec_text(const SubmittedJob& job);

/// The name of the run as a DNS label. One of more than `most` characters ends with a digest, so
/// that long names stay different. 44: JobSet allows 63 for NAME-node-0-65535-SUFFIX.
std::string dns_label(const std::string& name, size_t most = 44);

std::string slurm_script(const SubmittedJob& job);
std::vector<Node> kubernetes_manifests(const SubmittedJob& job);
Node sagemaker_request(const SubmittedJob& job);

/// Exit codes that no restart repairs: recipe, data, checkpoint, diverged, in use.
const std::vector<int>& fatal_exit_codes();

}  // namespace accel
