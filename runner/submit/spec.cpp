#include "runner/submit/spec.h"

#include <cctype>

#include "core/base/digest.h"
#include "runner/submit/spec_nodes.h"

namespace accel {

std::string spec_file(SubmitTarget to) {
  if (to == SubmitTarget::kSlurm) return "job.sh";
  return to == SubmitTarget::kSageMaker ? "job.json" : "job.yaml";
}

std::string spec_text(const SubmittedJob& job) {
  if (job.section.to == SubmitTarget::kSlurm) return slurm_script(job);
  if (job.section.to == SubmitTarget::kSageMaker) return to_json(sagemaker_request(job));
  std::string out;
  for (const Node& manifest : kubernetes_manifests(job)) {
    if (!out.empty()) out += "---\n";
    out += to_yaml(manifest);
  }
  return out;
}

std::string dns_label(const std::string& name, size_t most) {
  std::string label;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool fits = std::isalnum(byte) && byte < 128;
    if (fits) {
      label += static_cast<char>(std::tolower(byte));
    } else if (!label.empty() && label.back() != '-') {
      label += '-';
    }
  }
  if (label.empty() || !std::isalpha(static_cast<unsigned char>(label[0]))) label = "run-" + label;
  while (label.back() == '-') label.pop_back();
  if (label.size() <= most) return label;
  const std::string digest = *named_digest("xxh32", name);
  label.resize(most - digest.size() - 1);
  while (label.back() == '-') label.pop_back();
  return label + "-" + digest;
}

const std::vector<int>& fatal_exit_codes() {
  static const std::vector<int> codes = {
      static_cast<int>(ExitCode::kRecipe), static_cast<int>(ExitCode::kData),
      static_cast<int>(ExitCode::kCheckpoint), static_cast<int>(ExitCode::kDiverged),
      static_cast<int>(ExitCode::kInUse)};
  return codes;
}

}  // namespace accel
