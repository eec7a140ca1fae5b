#include "runner/submit/submit_section.h"

#include <algorithm>
#include <string_view>

#include "core/base/text.h"

namespace accel {
namespace {

constexpr int64_t kMostNodes = 1 << 16;

/// Keys of `extra` for every target but Slurm, whose are the options of sbatch.
const std::vector<std::string>& extra_keys(SubmitTarget to) {
  static const std::vector<std::string> kubernetes = {"namespace", "labels", "annotations", "pod"};
  static const std::vector<std::string> train_job = {"namespace", "labels", "annotations", "pod",
                                                     "runtime"};
  static const std::vector<std::string> sagemaker = {"instance_type", "output",  "base_job_name",
                                                     "metrics",       "profile", "region",
                                                     "volume_size",   "request"};
  if (to == SubmitTarget::kSageMaker) return sagemaker;
  return to == SubmitTarget::kTrainJob ? train_job : kubernetes;
}

/// Options of sbatch with an option of their own here, or that the script depends on.
constexpr std::pair<std::string_view, std::string_view> kOwnSbatch[] = {
    {"nodes", "submit.nodes"},
    {"gpus-per-node", "submit.gpus"},
    {"gres", "submit.gpus"},
    {"cpus-per-task", "submit.cpus"},
    {"mem", "submit.memory"},
    {"time", "submit.time"},
    {"partition", "submit.queue"},
    {"account", "submit.account"},
    {"job-name", "name"},
    {"chdir", ""},
    {"ntasks", ""},
    {"ntasks-per-node", ""},
    {"output", ""},
    {"open-mode", ""},
    {"requeue", "submit.retries"},
    {"no-requeue", "submit.retries"},
    {"signal", ""},
    {"parsable", ""},
    {"wrap", ""}};

bool names_secret(const std::string& name) {
  constexpr std::string_view kEnds[] = {"_KEY", "_TOKEN", "_SECRET", "_PASSWORD"};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](std::string_view end) { return name.ends_with(end); });
}

/// Reports errors of the section at the keys that have them.
class SubmitCheck {
 public:
  SubmitCheck(const SubmitSection& section, const Node& node, Reading& reading)
      : section_(section), node_(node), problems_(reading.problems) {}

  void run() {
    check_image();
    check_mounts();
    check_env();
    check_extra();
    if (section_.to == SubmitTarget::kSageMaker) check_sagemaker();
    if (section_.on_kubernetes()) check_kept_folder();
  }

 private:
  Span where(const char* key) const {
    const Node::Entry* entry = node_.find(key);
    return entry ? entry->node.where : node_.where;
  }
  void error(const char* key, const std::string& message, const std::string& hint) {
    problems_.error(where(key), message, hint);
  }

  void check_image() {
    if (section_.to == SubmitTarget::kSlurm || !section_.image.empty()) return;
    error("image", "'submit.image' is missing",
          "give a container image that has accel-run, such as one built from the Dockerfile");
  }

  void check_mounts() {
    for (const std::string& text : section_.mounts) {
      const auto mount = mount_of(text);
      if (!mount) {
        error("mounts", accel::text("'{}' is not a mount", text),
              "write SOURCE:TARGET or SOURCE:TARGET:ro with an absolute TARGET");
        continue;
      }
      check_source(*mount, text);
    }
    if (section_.to == SubmitTarget::kSlurm && section_.image.empty() && !section_.mounts.empty()) {
      error("mounts", "'submit.mounts' has no effect on Slurm without 'submit.image'",
            "leave it out, or set 'image' for a container");
    }
  }

  void check_source(const Mount& mount, const std::string& text) {
    const std::string& from = mount.source;
    if (section_.on_kubernetes() && !from.starts_with("pvc/") && !from.starts_with('/')) {
      error("mounts", accel::text("'{}' has no source that Kubernetes mounts", text),
            "write pvc/CLAIM:TARGET, or /PATH:TARGET for a folder of the node");
    }
    if (section_.to != SubmitTarget::kSageMaker) return;
    if (!from.starts_with("s3://") && !from.starts_with("fsx/")) {
      error("mounts", accel::text("'{}' has no source that SageMaker mounts", text),
            "write s3://BUCKET/PREFIX:TARGET, or fsx/FILE_SYSTEM/PATH:TARGET");
    }
    if (!mount.target.starts_with("/opt/ml/input/data/")) {
      error("mounts", accel::text("SageMaker cannot mount at '{}'", mount.target),
            "give a target /opt/ml/input/data/CHANNEL");
    }
  }

  void check_env() {
    for (const auto& [name, value] : section_.env) {
      if (name.starts_with("PET_") || name.starts_with("ACCEL_RUN_")) {
        error("env", accel::text("'submit.env' must not set '{}'", name),
              "accel-run sets it for its rendezvous");
      }
      if (value.reference.empty()) {
        if (!names_secret(name) || value.value.empty()) continue;
        error("env", accel::text("'submit.env.{}' is a secret in plain text", name),
              "write ${secret:...}, so that no spec has it");
        continue;
      }
      const std::string secret = secret_name(value);
      const bool has_key = secret.find('/') != secret.npos;
      if (secret.empty()) {
        error("env", accel::text("the secret in 'submit.env.{}' has other text around it", name),
              "make the value exactly ${secret:NAME}");
      } else if (section_.to == SubmitTarget::kSageMaker) {
        error("env", accel::text("'submit.env.{}' is a secret, which SageMaker would show", name),
              "read it in the container, such as from AWS Secrets Manager");
      } else if (section_.on_kubernetes() && !has_key) {
        error("env", accel::text("'submit.env.{}' names no key of a Secret: '{}'", name, secret),
              "write ${secret:SECRET/KEY}, the names of a Secret of the namespace and its key");
      } else if (section_.to == SubmitTarget::kSlurm && secret != name) {
        error("env",
              accel::text("'submit.env.{}' is the secret of another name: '{}'", name, secret),
              accel::text("write ${secret:{}}, and export it before 'accel-run submit'", name));
      }
    }
  }

  void check_extra() {
    if (!section_.extra.map()) {
      error("extra", "'submit.extra' must be a section", "write key: value");
      return;
    }
    for (const Node::Entry& entry : *section_.extra.map()) {
      if (section_.to == SubmitTarget::kSlurm) {
        check_sbatch(entry);
        continue;
      }
      const auto& keys = extra_keys(section_.to);
      if (std::find(keys.begin(), keys.end(), entry.key) != keys.end()) continue;
      problems_.error(entry.where, accel::text("unknown option '{}'", entry.key),
                      accel::text("'submit.extra' has {} for this target", quoted_list(keys)));
    }
  }

  void check_sbatch(const Node::Entry& entry) {
    for (const auto& [option, own] : kOwnSbatch) {
      if (entry.key != option) continue;
      problems_.error(entry.where, accel::text("'submit.extra' must not set '{}'", entry.key),
                      own.empty() ? "the script depends on it" : accel::text("set '{}'", own));
    }
    if (entry.node.map() || entry.node.list()) {
      problems_.error(
          entry.node.where,
          accel::text("'{}' wants a value of sbatch, not {}", entry.key, entry.node.describe()),
          "write option: value, or option: true for one without a value");
    }
  }

  void check_sagemaker() {
    for (const char* key : {"instance_type", "output"}) {
      if (!section_.extra.map() || section_.extra.find(key)) continue;
      error("extra", accel::text("'submit.extra.{}' is missing", key),
            std::string_view(key) == "output"
                ? "give the S3 prefix for models and checkpoints, such as s3://bucket/runs"
                : "give the machines, such as ml.g5.12xlarge");
    }
    if (section_.account.empty()) {
      error("account", "'submit.account' is missing", "give the ARN of the execution role");
    }
    const bool shared =
        std::any_of(section_.mounts.begin(), section_.mounts.end(), [](const std::string& text) {
          const auto mount = mount_of(text);
          return mount && mount->source.starts_with("fsx/") && !mount->read_only;
        });
    if (section_.nodes > 1 && !shared) {
      error("nodes",
            accel::text("{} nodes share the run's folder, and no file system is mounted",
                        section_.nodes),
            "add fsx/FILE_SYSTEM/PATH:/opt/ml/input/data/shared to 'submit.mounts'");
    }
  }

  /// A pod loses its own disk with its end.
  void check_kept_folder() {
    bool kept = false;
    for (const std::string& text : section_.mounts) {
      const auto mount = mount_of(text);
      kept = kept || !mount || !mount->read_only;  // a bad one is reported already
    }
    if (kept) return;
    error("mounts", "no volume for the run's folder: checkpoints would end with the pod",
          "add a writable mount, such as pvc/CLAIM:/work");
  }

  const SubmitSection& section_;
  const Node& node_;
  Diagnostics& problems_;
};

}  // namespace

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
             "recipe must fit.")
      .field("gpu_memory", &SubmitSection::gpu_memory,
             "Memory of one GPU, which the plan of the recipe must fit; auto: not checked.")
      .field(
          "time", &SubmitSection::time,
          "Time limit of an attempt, such as `4 h`. The run saves and stops before it.",
          if_given<std::optional>(Rule<Duration>{
              [](const Duration& v) { return v.unit == Duration::Unit::kSeconds && v.value >= 60; },
              "a time of at least a minute, such as '4 h'", ""}))
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
             "SageMaker.")
      .check([](const SubmitSection& section, const Node& node, Reading& reading) {
        SubmitCheck(section, node, reading).run();
      });
}

SubmitSection read_submit(const Node& section, Diagnostics& problems) {
  static const Registry none;
  Reading reading{problems, none};
  if (!section.map()) {
    problems.error(section.where, "'submit' must be a section", "write to, nodes, time and so on");
    return {};
  }
  return SubmitSection::schema().read(section, reading);
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
