#include "runner/submit/submit_section.h"

#include <regex>

#include "core/base/text.h"

namespace accel {
namespace {

constexpr int64_t kMostNodes = 1 << 16;

/// Seconds of Slurm's "D-HH", "D-HH:MM", "D-HH:MM:SS" and "HH:MM:SS"; none for other texts.
std::optional<double> slurm_seconds(const std::string& text) {
  static const std::regex form(
      R"((?:(\d{1,4})-(\d\d?)(?::(\d\d)(?::(\d\d))?)?)|(?:(\d{1,4}):(\d\d):(\d\d)))");
  std::smatch part;
  if (!std::regex_match(text, part, form)) return std::nullopt;
  const auto number = [&](int i) { return part[i].matched ? std::stod(part[i]) : 0.0; };
  if (part[1].matched) return ((number(1) * 24 + number(2)) * 60 + number(3)) * 60 + number(4);
  return (number(5) * 60 + number(6)) * 60 + number(7);
}

Parsed<TimeLimit> parse_time_limit(const Scalar& scalar) {
  if (const auto seconds = slurm_seconds(scalar.text)) return {TimeLimit{*seconds}, ""};
  const Parsed<Duration> duration = parse_duration(scalar);
  if (duration.value && duration.value->unit == Duration::Unit::kSeconds) {
    return {TimeLimit{duration.value->value}, ""};
  }
  return {std::nullopt, duration.hint};
}

}  // namespace

std::optional<TimeLimit> Codec<TimeLimit>::read(const Node& node, const std::string& name,
                                                Reading& reading) {
  return detail::read_scalar<TimeLimit>(node, name, reading, &parse_time_limit, Codec::name());
}

Node Codec<TimeLimit>::write(const TimeLimit& limit) {
  return Codec<Duration>::write({limit.seconds, Duration::Unit::kSeconds});
}

std::optional<SubmitVariable> Codec<SubmitVariable>::read(const Node& node, const std::string& name,
                                                          Reading& reading) {
  const Scalar* scalar = node.scalar();
  if (scalar && scalar->secret) return SubmitVariable{"", scalar->text};
  const auto value = Codec<std::string>::read(node, name, reading);
  return value ? std::optional(SubmitVariable{*value, ""}) : std::nullopt;
}

Node Codec<SubmitVariable>::write(const SubmitVariable& variable) {
  return scalar_node(variable.reference.empty() ? variable.value : variable.reference, true);
}

Schema<SubmitSection> SubmitSection::schema() {
  const Rule<ByteSize> some_memory = {[](const ByteSize& size) { return size.bytes >= (1 << 20); },
                                      "at least 1 MiB", ""};
  return Schema<SubmitSection>()
      .field("to", &SubmitSection::to,
             "Scheduler. slurm: an sbatch script; job, jobset, trainjob: a Job, JobSet or "
             "Kubeflow TrainJob of Kubernetes; sagemaker: a training job of Amazon.")
      .required()
      .field("nodes", &SubmitSection::nodes, "Machines.", between<int64_t>(1, kMostNodes))
      .field("gpus", &SubmitSection::gpus,
             "GPUs and ranks per machine; 0: CPU ranks, as many as `accelerator.num_processes` "
             "divided by `nodes`.",
             between<int64_t>(0, 1024))
      .field("cpus", &SubmitSection::cpus, "Cores per machine; auto: the scheduler's default.",
             if_given<Auto>(at_least<int64_t>(1)))
      .field("memory", &SubmitSection::memory,
             "Memory per machine, such as `64 GiB`; auto: the scheduler's default. The plan of the "
             "recipe must fit.",
             if_given<Auto>(some_memory))
      .field("gpu_memory", &SubmitSection::gpu_memory,
             "Memory of one GPU, which the plan of the recipe must fit; auto: not checked.",
             if_given<Auto>(some_memory))
      .field(
          "time", &SubmitSection::time,
          "Time limit of an attempt, such as `4 h`, or as Slurm's `1-02:30:00`. The run saves and "
          "stops before it.",
          if_given<std::optional>(Rule<TimeLimit>{
              [](const TimeLimit& limit) { return limit.seconds >= 60; }, "at least a minute", ""}))
      .field("image", &SubmitSection::image,
             "Container image with accel-run. On Slurm it is started by pyxis; empty: the "
             "accel-run of the machines.")
      .field("queue", &SubmitSection::queue,
             "Partition of Slurm, or local queue of Kueue on Kubernetes.")
      .field("account", &SubmitSection::account,
             "Account of Slurm, service account on Kubernetes, or ARN of SageMaker's role.")
      .field("mounts", &SubmitSection::mounts,
             "Volumes as SOURCE:TARGET[:ro]: a path for pyxis; pvc/CLAIM or a path on Kubernetes; "
             "s3://... or fsx/ID/PATH on SageMaker. On Kubernetes the run's folder is in the first "
             "writable one.")
      .field("env", &SubmitSection::env,
             "Environment variables of the ranks. A secret stays a reference: `${secret:NAME}` on "
             "Slurm, `${secret:SECRET/KEY}` on Kubernetes.")
      .field("retries", &SubmitSection::retries,
             "Restarts after a failure. Preempted runs restart without limit, wrong recipes never.",
             between<int64_t>(0, 1000))
      .field("extra", &SubmitSection::extra,
             "Further options of the scheduler: of sbatch; namespace, labels, annotations and pod "
             "(merged into the pod's spec) on Kubernetes; instance_type, output and request on "
             "SageMaker.");
}

std::optional<Mount> mount_of(const std::string& text) {
  std::string rest = text;
  Mount mount;
  if (rest.ends_with(":ro")) {
    mount.read_only = true;
    rest.resize(rest.size() - 3);
  }
  const size_t colon = rest.rfind(':');
  if (colon == rest.npos || colon == 0) return std::nullopt;
  mount.source = rest.substr(0, colon);
  mount.target = rest.substr(colon + 1);
  if (!mount.target.starts_with('/')) return std::nullopt;
  return mount;
}

std::string secret_name(const SubmitVariable& value) {
  constexpr std::string_view kStart = "${secret:";
  const std::string& text = value.reference;
  if (!text.starts_with(kStart) || text.find('}') != text.size() - 1) return {};
  return text.substr(kStart.size(), text.size() - kStart.size() - 1);
}

}  // namespace accel
