// Value types of a recipe's top level, and their codecs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/api/activation_checkpointing.h"
#include "core/recipe/registry.h"
#include "core/recipe/wrapped.h"
#include "parallel/shared_memory/cpu_backend.h"
#include "train/recipe/mixture_weight.h"

namespace accel {

template <>
struct EnumNames<CpuBackend> {
  static constexpr std::pair<CpuBackend, const char*> kValues[] = {
      {CpuBackend::kAuto, "auto"},
      {CpuBackend::kSharedMemory, "shared_memory"},
      {CpuBackend::kGloo, "gloo"}};
};

/// Type of parallelism; only what this build supports.
enum class DistributedType { kAuto, kNo, kMultiCpu, kMultiGpu };
template <>
struct EnumNames<DistributedType> {
  static constexpr std::pair<DistributedType, const char*> kValues[] = {
      {DistributedType::kAuto, "auto"},
      {DistributedType::kNo, "no"},
      {DistributedType::kMultiCpu, "multi_cpu"},
      {DistributedType::kMultiGpu, "multi_gpu"}};
};

enum class DeviceChoice { kAuto, kCpu, kCuda };
template <>
struct EnumNames<DeviceChoice> {
  static constexpr std::pair<DeviceChoice, const char*> kValues[] = {
      {DeviceChoice::kAuto, "auto"}, {DeviceChoice::kCpu, "cpu"}, {DeviceChoice::kCuda, "cuda"}};
};

/// Whether higher or lower is better; kAuto: by the metric.
enum class BestMode { kAuto, kMin, kMax };
template <>
struct EnumNames<BestMode> {
  static constexpr std::pair<BestMode, const char*> kValues[] = {
      {BestMode::kAuto, "auto"}, {BestMode::kMin, "min"}, {BestMode::kMax, "max"}};
};

template <>
struct EnumNames<ActivationCheckpointing> {
  static constexpr std::pair<ActivationCheckpointing, const char*> kValues[] = {
      {ActivationCheckpointing::kNone, "none"},
      {ActivationCheckpointing::kSelective, "selective"},
      {ActivationCheckpointing::kBlocks, "blocks"}};
};

/// Handling of a failed save.
enum class SaveError { kStop, kContinue };
template <>
struct EnumNames<SaveError> {
  static constexpr std::pair<SaveError, const char*> kValues[] = {
      {SaveError::kStop, "stop"}, {SaveError::kContinue, "continue"}};
};

/// `auto`: the newest valid checkpoint of the run folder, if any. `never`: the folder must have
/// none. Else the path of one checkpoint.
struct ResumeFrom {
  enum class Kind { kAuto, kNever, kPath };
  Kind kind = Kind::kAuto;
  FilePath path;
};

/// A bound on a metric, such as `>= 0.90`.
struct Expectation {
  enum class Op { kAtLeast, kAtMost, kMore, kLess };
  Op op = Op::kAtLeast;
  double bound = 0;

  bool met(double value) const;
};
/// ">= 0.9"
std::string to_string(const Expectation& expectation);

/// Keys besides a dataset's own.
struct MixturePart {
  std::optional<MixtureWeight> weight;
  std::optional<int64_t> limit;
  std::optional<int64_t> head;
  static Schema<MixturePart> schema();
};
using DatasetPart = Wrapped<Dataset, MixturePart>;

/// A share of the samples such as `10%`, or a number of them.
struct Portion {
  double percent = 0;
  int64_t samples = 0;  ///< 0: `percent` counts
};
/// "10 %" or "64 samples".
std::string to_string(const Portion& portion);

/// One dataset, or a mixture of several.
struct DatasetParts {
  std::vector<DatasetPart> parts;
};

/// Duration of a schedule's phase; the last phase extends to the end.
struct PhaseLength {
  std::optional<Duration> duration;
  static Schema<PhaseLength> schema();
};
using SchedulePhase = Wrapped<Schedule, PhaseLength>;

/// One schedule, or several one after another.
struct SchedulePhases {
  std::vector<SchedulePhase> phases;
  explicit operator bool() const { return !phases.empty(); }
};

template <>
struct Codec<ResumeFrom> {
  static std::string name() { return "'auto', 'never' or the path of a checkpoint"; }
  static std::string json() { return "\"type\": \"string\""; }
  static std::optional<ResumeFrom> read(const Node& node, const std::string& name,
                                        Reading& reading);
  static Node write(const ResumeFrom& value);
};

template <>
struct Codec<Expectation> {
  static std::string name() { return "a bound such as '>= 0.9'"; }
  static std::string json() { return "\"type\": \"string\", \"pattern\": \"^ *[<>]=? *[-0-9.]\""; }
  static std::optional<Expectation> read(const Node& node, const std::string& name,
                                         Reading& reading);
  static Node write(const Expectation& value);
};

template <>
struct Codec<Portion> {
  static std::string name() { return "a share such as '10%' or a number of samples"; }
  static std::string json() { return "\"type\": [\"string\", \"integer\"]"; }
  static std::optional<Portion> read(const Node& node, const std::string& name, Reading& reading);
  static Node write(const Portion& value);
};

namespace detail {
/// A component or a list of them, for JSON Schema.
template <class Part>
std::string one_or_several_json() {
  const std::string one = Codec<Part>::json();
  return "\"anyOf\": [{" + one + "}, {\"type\": \"array\", \"items\": {" + one + "}}]";
}
}  // namespace detail

template <>
struct Codec<DatasetParts> {
  static std::string name() { return "a dataset or a list of them"; }
  static std::string kind() { return Kind<Dataset>::kName; }
  static std::string json() { return detail::one_or_several_json<DatasetPart>(); }
  static std::vector<FieldInfo> extra_fields() { return Codec<DatasetPart>::extra_fields(); }
  static std::optional<DatasetParts> read(const Node& node, const std::string& name,
                                          Reading& reading);
  static Node write(const DatasetParts& value);
};

template <>
struct Codec<SchedulePhases> {
  static std::string name() { return "a scheduler or a list of them"; }
  static std::string kind() { return Kind<Schedule>::kName; }
  static std::string json() { return detail::one_or_several_json<SchedulePhase>(); }
  static std::vector<FieldInfo> extra_fields() { return Codec<SchedulePhase>::extra_fields(); }
  static std::optional<SchedulePhases> read(const Node& node, const std::string& name,
                                            Reading& reading);
  static Node write(const SchedulePhases& value);
};

}  // namespace accel
