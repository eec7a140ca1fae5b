// `submit` of a config: the cluster that runs a recipe, and the resources of the job there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/registry.h"
#include "core/recipe/schema.h"

namespace accel {

enum class SubmitTarget { kSlurm, kJob, kJobSet, kTrainJob, kSageMaker };
template <>
struct EnumNames<SubmitTarget> {
  static constexpr std::pair<SubmitTarget, const char*> kValues[] = {
      {SubmitTarget::kSlurm, "slurm"},
      {SubmitTarget::kJob, "job"},
      {SubmitTarget::kJobSet, "jobset"},
      {SubmitTarget::kTrainJob, "trainjob"},
      {SubmitTarget::kSageMaker, "sagemaker"}};
};

/// The value of an environment variable: a text, or the reference to a secret.
struct SubmitVariable {
  std::string value;      ///< empty for a secret
  std::string reference;  ///< "${secret:NAME}", or text with such a part; empty for a plain text
};

template <>
struct Codec<SubmitVariable> {
  static std::string name() { return Codec<std::string>::name(); }
  static std::string json() { return Codec<std::string>::json(); }
  static std::optional<SubmitVariable> read(const Node& node, const std::string& name,
                                            Reading& reading);
  static Node write(const SubmitVariable& variable);
};

/// `4 h`, or Slurm's `1-02:30:00`.
struct TimeLimit {
  double seconds = 0;
  bool operator==(const TimeLimit&) const = default;
};

template <>
struct Codec<TimeLimit> {
  static std::string name() { return "a time such as '4 h' or '1-02:30:00'"; }
  static std::string json() { return "\"type\": \"string\""; }
  static std::optional<TimeLimit> read(const Node& node, const std::string& name, Reading& reading);
  static Node write(const TimeLimit& limit);
};

struct SubmitSection {
  SubmitTarget to = SubmitTarget::kSlurm;
  int64_t nodes = 1;
  int64_t gpus = 0;
  Auto<int64_t> cpus;
  Auto<ByteSize> memory;
  Auto<ByteSize> gpu_memory;
  std::optional<TimeLimit> time;
  std::string image;
  std::string queue;
  std::string account;
  std::vector<std::string> mounts;
  std::map<std::string, SubmitVariable> env;
  int64_t retries = 3;
  Node extra = {Node::Map{}, {}};
  static Schema<SubmitSection> schema();

  bool on_kubernetes() const {
    return to == SubmitTarget::kJob || to == SubmitTarget::kJobSet || to == SubmitTarget::kTrainJob;
  }
};

/// A mount "SOURCE:TARGET" or "SOURCE:TARGET:ro".
struct Mount {
  std::string source;
  std::string target;  ///< an absolute path on the machines
  bool read_only = false;
};

/// Null when it is no mount.
std::optional<Mount> mount_of(const std::string& text);

/// NAME of a value that is exactly "${secret:NAME}"; "" for a plain value.
std::string secret_name(const SubmitVariable& value);

}  // namespace accel
