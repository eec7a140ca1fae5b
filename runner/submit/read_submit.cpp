#include "runner/submit/read_submit.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <string_view>

#include "core/base/text.h"

namespace accel {
namespace {

constexpr int64_t kMostRetries = 30;

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

bool is_variable_name(const std::string& name) {
  static const std::regex form("[A-Za-z_][A-Za-z0-9_]*");
  return std::regex_match(name, form);
}

bool has_control_character(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return std::iscntrl(static_cast<unsigned char>(c)); });
}

/// Whether the node is a section whose values are texts or numbers.
bool is_flat(const Node& node) {
  return node.map() && std::all_of(node.map()->begin(), node.map()->end(),
                                   [](const Node::Entry& entry) { return entry.node.scalar(); });
}

bool names_secret(const std::string& name) {
  constexpr std::string_view kEnds[] = {"_KEY", "_TOKEN", "_SECRET", "_PASSWORD"};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](std::string_view end) { return name.ends_with(end); });
}

/// Reports errors of the section at the keys that have them.
class SubmitCheck {
 public:
  SubmitCheck(const SubmitSection& section, const Node& node, Diagnostics& problems)
      : section_(section), node_(node), problems_(problems) {}

  void run() {
    check_lines();
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

  /// A line break would end the line of a script.
  void check_lines() {
    const std::pair<const char*, const std::string&> texts[] = {
        {"image", section_.image}, {"queue", section_.queue}, {"account", section_.account}};
    for (const auto& [key, value] : texts) {
      if (!has_control_character(value)) continue;
      error(key, accel::text("'submit.{}' has a line break or another control character", key),
            "leave it out");
    }
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
      check_target(*mount, text);
    }
    if (section_.to == SubmitTarget::kSlurm && section_.image.empty() && !section_.mounts.empty()) {
      error("mounts", "'submit.mounts' has no effect on Slurm without 'submit.image'",
            "leave it out, or set 'image' for a container");
    }
  }

  /// A target belongs to one volume.
  void check_target(const Mount& mount, const std::string& text) {
    const auto same = [&](const std::string& other) {
      const auto found = mount_of(other);
      return found && found->target == mount.target;
    };
    const bool own = section_.on_kubernetes() &&
                     (mount.target == "/dev/shm" || mount.target == "/etc/accel-run");
    const auto first = std::find_if(section_.mounts.begin(), section_.mounts.end(), same);
    if (!own && *first == text) return;
    error("mounts", accel::text("'{}' mounts at '{}', as another volume does", text, mount.target),
          "give each volume a folder of its own");
  }

  void check_source(const Mount& mount, const std::string& text) {
    const std::string& from = mount.source;
    const bool claim = from.starts_with("pvc/") && from.size() > 4;
    if (section_.on_kubernetes() && !claim && !from.starts_with('/')) {
      error("mounts", accel::text("'{}' has no source that Kubernetes mounts", text),
            "write pvc/CLAIM:TARGET, or /PATH:TARGET for a folder of the node");
    }
    if (section_.to != SubmitTarget::kSageMaker) return;
    if (!from.starts_with("s3://") && !from.starts_with("fsx/")) {
      error("mounts", accel::text("'{}' has no source that SageMaker mounts", text),
            "write s3://BUCKET/PREFIX:TARGET, or fsx/FILE_SYSTEM/PATH:TARGET");
    }
    static const std::regex channel("/opt/ml/input/data/[A-Za-z0-9._-]{1,64}");
    if (!std::regex_match(mount.target, channel)) {
      error("mounts", accel::text("SageMaker cannot mount at '{}'", mount.target),
            "give a target /opt/ml/input/data/CHANNEL");
    }
  }

  void check_env() {
    for (const auto& [name, value] : section_.env) {
      if (!is_variable_name(name)) {
        error("env", accel::text("'{}' in 'submit.env' is not the name of a variable", name),
              "write letters, digits and underscores, without a digit at the start");
        continue;
      }
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
      const size_t slash = secret.find('/');
      const bool has_key = slash != secret.npos && slash > 0 && slash + 1 < secret.size();
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
      check_shape(entry);
      const auto& keys = extra_keys(section_.to);
      if (std::find(keys.begin(), keys.end(), entry.key) != keys.end()) continue;
      problems_.error(entry.where, accel::text("unknown option '{}'", entry.key),
                      accel::text("'submit.extra' has {} for this target", quoted_list(keys)));
    }
  }

  /// The values that specs take as they are.
  void check_shape(const Node::Entry& entry) {
    const auto is_in = [&](std::initializer_list<std::string_view> keys) {
      return std::find(keys.begin(), keys.end(), entry.key) != keys.end();
    };
    const bool flat = is_in({"labels", "annotations", "metrics"});
    const bool section = is_in({"pod", "request"});
    if (flat      ? is_flat(entry.node)
        : section ? entry.node.map() != nullptr
                  : entry.node.scalar() != nullptr)
      return;
    problems_.error(entry.node.where,
                    accel::text("'submit.extra.{}' wants {}, not {}", entry.key,
                                flat      ? "a section of texts"
                                : section ? "a section"
                                          : "a text",
                                entry.node.describe()),
                    flat      ? "write name: value"
                    : section ? "write field: value"
                              : "write one value");
  }

  void check_sbatch(const Node::Entry& entry) {
    for (const auto& [option, own] : kOwnSbatch) {
      if (entry.key != option) continue;
      problems_.error(entry.where, accel::text("'submit.extra' must not set '{}'", entry.key),
                      own.empty() ? "the script depends on it" : accel::text("set '{}'", own));
    }
    static const std::regex option("[a-z][a-z0-9-]*");
    if (!std::regex_match(entry.key, option)) {
      problems_.error(entry.where, accel::text("'{}' is not an option of sbatch", entry.key),
                      "write a long option without its dashes, such as qos");
    }
    const Scalar* value = entry.node.scalar();
    if (!value || value->text.empty() || value->text == "false" ||
        has_control_character(value->text)) {
      problems_.error(
          entry.node.where,
          accel::text("'{}' wants a value of sbatch, not {}", entry.key, entry.node.describe()),
          "write option: value, or option: true for one without a value");
    }
  }

  /// The instance type decides.
  void check_no_effect() {
    for (const char* key : {"cpus", "memory", "queue"}) {
      if (!node_.find(key)) continue;
      error(key, accel::text("'submit.{}' has no effect on SageMaker", key),
            "leave it out: 'submit.extra.instance_type' decides");
    }
    if (section_.retries > kMostRetries) {
      error("retries",
            accel::text("SageMaker restarts at most {} times, not {}", kMostRetries,
                        section_.retries),
            "lower 'submit.retries'");
    }
  }

  /// Values of `extra` that SageMaker would refuse after the submission.
  void check_request() {
    static const std::pair<const char*, std::pair<std::regex, const char*>> kForms[] = {
        {"instance_type", {std::regex("ml[.].+"), "an instance type such as ml.g5.12xlarge"}},
        {"output", {std::regex("s3://[^/]+.*"), "an S3 prefix such as s3://bucket/runs"}},
        {"volume_size", {std::regex("[1-9][0-9]{0,5}"), "a whole number of GB"}}};
    for (const auto& [key, form] : kForms) {
      const Node::Entry* entry = section_.extra.map() ? section_.extra.find(key) : nullptr;
      const Scalar* value = entry ? entry->node.scalar() : nullptr;
      if (!value || std::regex_match(value->text, form.first)) continue;
      problems_.error(
          entry->node.where,
          accel::text("'submit.extra.{}' wants {}, not '{}'", key, form.second, value->text), "");
    }
  }

  void check_sagemaker() {
    check_no_effect();
    check_request();
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

SubmitSection read_submit(const Node& section, Diagnostics& problems) {
  static const Registry none;
  Reading reading{problems, none};
  if (!section.map()) {
    problems.error(section.where, "'submit' must be a section", "write to, nodes, time and so on");
    return {};
  }
  const size_t before = problems.size();
  SubmitSection options = SubmitSection::schema().read(section, reading);
  if (problems.size() == before) SubmitCheck(options, section, problems).run();
  return options;
}

}  // namespace accel
