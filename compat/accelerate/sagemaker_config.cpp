#include "compat/accelerate/sagemaker_config.h"

#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "core/base/text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// Keys with a counterpart in `submit`; a target in `extra` starts with it.
constexpr std::pair<std::string_view, std::string_view> kCopied[] = {
    {"image_uri", "image"},
    {"iam_role_name", "account"},
    {"num_machines", "nodes"},
    {"ec2_instance_type", "extra.instance_type"},
    {"profile", "extra.profile"},
    {"region", "extra.region"},
    {"base_job_name", "extra.base_job_name"}};

/// Versions of the container that Accelerate would choose.
constexpr std::string_view kVersions[] = {"pytorch_version", "transformers_version", "py_version"};

class SageMakerConfig {
 public:
  SageMakerConfig(const Node& tree, std::string path, Diagnostics& problems)
      : tree_(tree), path_(std::move(path)), layer_(problems) {}

  ConfigLayer read() {
    layer_.set("submit.to",
               scalar_node("sagemaker", false, tree_.find("compute_environment")->where));
    for (const Node::Entry& entry : *tree_.map()) read_key(entry);
    if (!has("image_uri")) {
      problems().error(tree_.where, "'image_uri' is missing",
                       "accel-run needs an image that contains it, such as one built from its "
                       "Dockerfile");
    }
    ConfigLayer layer;
    layer.tree = layer_.take();
    layer.warnings = layer_.take_warnings();
    return layer;
  }

 private:
  Diagnostics& problems() { return layer_.problems(); }

  bool has(std::string_view key) const {
    const Node::Entry* entry = tree_.find(key);
    return entry && !is_neutral(entry->node, {});
  }

  void read_key(const Node::Entry& entry) {
    if (is_neutral(entry.node, {})) return;
    const std::string shown = key_with_value(entry.key, ": ", entry.node);
    for (const auto& [name, target] : kCopied) {
      if (entry.key == name) return layer_.set("submit." + std::string(target), entry.node);
    }
    for (const std::string_view name : kVersions) {
      if (entry.key != name) continue;
      return layer_.warn(entry.where,
                         text("'{}' has no effect: the image has accel-run, not Python", shown));
    }
    if (entry.key == "sagemaker_inputs_file") return read_inputs(entry);
    if (entry.key == "sagemaker_metrics_file") return read_metrics(entry);
    if (entry.key == "distributed_type") return read_type(entry, shown);
    read_common(entry, shown);
  }

  /// Keys that configs of every kind have.
  void read_common(const Node::Entry& entry, const std::string& shown) {
    for (const char* name : {"mixed_precision", "debug", "num_processes", "gpu_ids"}) {
      if (entry.key != name) continue;
      const bool set_by_machines = entry.key == "num_processes" || entry.key == "gpu_ids";
      if (set_by_machines) {
        return layer_.warn(entry.where,
                           text("'{}' has no effect: 'submit.gpus' sets the ranks", shown));
      }
      return layer_.apply(*find_compat_key(config_keys(), entry.key), entry.node, shown);
    }
    const CompatKey* known = find_compat_key(config_keys(), entry.key);
    if (!known) {
      problems().error(entry.where, text("unknown option '{}'", entry.key),
                       did_you_mean(entry.key, key_names(config_keys())));
    } else if (entry.key == "additional_args") {
      layer_.refuse(entry.where, shown, "these arguments are of SageMaker's Python SDK",
                    "write those of the request into 'submit.extra.request' of a config");
    } else if (entry.key != "compute_environment" && entry.key != "use_cpu") {
      layer_.apply(*known, entry.node, shown);
    }
  }

  void read_type(const Node::Entry& entry, const std::string& shown) {
    if (is_neutral(entry.node, "no none")) return;
    const std::string type = entry.node.scalar() ? entry.node.scalar()->text : "";
    if (type == "DATA_PARALLEL") {
      return layer_.warn(entry.where,
                         text("'{}' is by NCCL, not by Amazon's smdistributed", shown));
    }
    layer_.refuse(entry.where, shown, "accel-run has no smdistributed",
                  "write 'NO', and set 'accelerator.fsdp' or 'accelerator.parallelism'");
  }

  /// The rows of a table with a header: two fields, separated by a tab.
  std::vector<std::pair<std::string, std::string>> table(const Node::Entry& entry) {
    std::vector<std::pair<std::string, std::string>> rows;
    const std::string name = entry.node.scalar() ? entry.node.scalar()->text : "";
    std::ifstream in((fs::path(path_).parent_path() / name).string());
    if (!in) {
      problems().error(entry.node.where, text("cannot read '{}'", name),
                       "give a file with two columns, separated by a tab");
      return rows;
    }
    std::string line;
    std::getline(in, line);  // the header
    while (std::getline(in, line)) {
      const size_t tab = line.find('\t');
      if (trimmed(line).empty()) continue;
      if (tab == line.npos) {
        problems().error(entry.node.where, text("'{}' has a line without a tab: '{}'", name, line),
                         "write two columns, separated by a tab");
        continue;
      }
      rows.emplace_back(trimmed(line.substr(0, tab)), trimmed(line.substr(tab + 1)));
    }
    return rows;
  }

  void read_inputs(const Node::Entry& entry) {
    Node::List mounts;
    for (const auto& [channel, location] : table(entry)) {
      mounts.push_back(
          scalar_node(location + ":/opt/ml/input/data/" + channel, true, entry.node.where));
    }
    layer_.set("submit.mounts", {std::move(mounts), entry.node.where});
  }

  void read_metrics(const Node::Entry& entry) {
    Node::Map metrics;
    for (const auto& [name, regex] : table(entry)) {
      metrics.push_back({name, entry.where, scalar_node(regex, true, entry.node.where)});
    }
    layer_.set("submit.extra.metrics", {std::move(metrics), entry.node.where});
  }

  const Node& tree_;
  std::string path_;
  CompatLayer layer_;
};

}  // namespace

ConfigLayer read_submit_config(const std::string& path, Diagnostics& problems) {
  const Node tree = parse_config(path);
  const Node::Entry* place = tree.find("compute_environment");
  const Scalar* name = place ? place->node.scalar() : nullptr;
  if (!name || name->text != "AMAZON_SAGEMAKER") return read_config(path, false, problems);
  return SageMakerConfig(tree, path, problems).read();
}

}  // namespace accel
