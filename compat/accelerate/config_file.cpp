#include "compat/accelerate/config_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "compat/accelerate/compat_fp8.h"
#include "compat/accelerate/sharding_layer.h"
#include "core/base/text.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

using Effect = CompatKey::Effect;

constexpr CompatKey kConfigKeys[] = {
    {"compute_environment", Effect::kRefused, reasons::kSageMaker, "local_machine",
     "submit it with: accel-run submit RECIPE --config FILE; in the container of its job, leave "
     "the "
     "config out"},
    {"distributed_type", Effect::kPlain},
    {"num_processes", Effect::kPlain},
    {"mixed_precision", Effect::kPrecision, "accelerator.mixed_precision"},
    {"fp16", Effect::kPlain},
    {"use_cpu", Effect::kTurnsOn, "accelerator.device=cpu"},
    {"debug", Effect::kTurnsOn, "accelerator.debug=collectives"},
    {"num_machines", Effect::kSets, "accelerator.num_machines"},
    {"machine_rank", Effect::kSets, "accelerator.machine_rank"},
    {"main_process_ip", Effect::kSets, "accelerator.main_process_ip"},
    {"main_process_port", Effect::kSets, "accelerator.main_process_port", "0"},
    {"gradient_accumulation_steps", Effect::kSets, "train.gradient_accumulation_steps", "auto"},
    {"gradient_clipping", Effect::kSets, "train.max_grad_norm", "auto none"},
    {"gpu_ids", Effect::kSets, "accelerator.gpu_ids", "all"},
    {"rdzv_backend", Effect::kIdle, reasons::kRendezvous, "static"},
    {"same_network", Effect::kIdle, reasons::kRendezvous, "true yes on 1 false no off 0"},
    {"main_training_function", Effect::kIdle, reasons::kNoScript, "main"},
    {"enable_cpu_affinity", Effect::kRefused, reasons::kAffinity, kOff, "write false"},
    {"downcast_bf16", Effect::kRefused, reasons::kTpu, kOff, "write 'no'"},
    {"mpirun_config", Effect::kPlain},
    {"ipex_config", Effect::kPlain},  // Accelerate wrote it until it removed IPEX
    {"dynamo_config", Effect::kPlain},
    {"dynamo_backend", Effect::kRefused, reasons::kCompile, kOff, "write 'NO'"},
    {"fp8_config", Effect::kPlain},
    {"deepspeed_config", Effect::kPlain},
    {"fsdp_config", Effect::kPlain},
    {"megatron_lm_config", Effect::kPlain},
    {"parallelism_config", Effect::kPlain},
    {"tpu_name", Effect::kRefused, reasons::kTpu},
    {"tpu_zone", Effect::kRefused, reasons::kTpu},
    {"tpu_use_cluster", Effect::kRefused, reasons::kTpu, kOff},
    {"tpu_use_sudo", Effect::kRefused, reasons::kTpu, kOff},
    {"tpu_vm", Effect::kRefused, reasons::kTpu},
    {"tpu_env", Effect::kRefused, reasons::kTpu},
    {"command_file", Effect::kRefused, reasons::kTpu},
    {"commands", Effect::kRefused, reasons::kTpu},
    {"ec2_instance_type", Effect::kRefused, reasons::kSageMaker},
    {"iam_role_name", Effect::kRefused, reasons::kSageMaker},
    {"image_uri", Effect::kRefused, reasons::kSageMaker},
    {"profile", Effect::kRefused, reasons::kSageMaker},
    {"region", Effect::kRefused, reasons::kSageMaker},
    {"base_job_name", Effect::kRefused, reasons::kSageMaker},
    {"pytorch_version", Effect::kRefused, reasons::kSageMaker},
    {"transformers_version", Effect::kRefused, reasons::kSageMaker},
    {"py_version", Effect::kRefused, reasons::kSageMaker},
    {"sagemaker_inputs_file", Effect::kRefused, reasons::kSageMaker},
    {"sagemaker_metrics_file", Effect::kRefused, reasons::kSageMaker},
    {"additional_args", Effect::kRefused, reasons::kSageMaker},
};

constexpr CompatKey kDynamoKeys[] = {
    {"dynamo_backend", Effect::kRefused, reasons::kCompile, kOff, "write 'NO'"},
    {"dynamo_mode", Effect::kDetail},
    {"dynamo_use_fullgraph", Effect::kDetail},
    {"dynamo_use_dynamic", Effect::kDetail},
    {"dynamo_use_regional_compilation", Effect::kDetail},
};

constexpr CompatKey kMpirunKeys[] = {
    {"mpirun_hostfile", Effect::kRefused, reasons::kMpi, "", reasons::kMpiHint},
    {"mpirun_ccl", Effect::kIdle, "accel-run does not use oneCCL", "0 1"},
};

constexpr CompatKey kIpexKeys[] = {
    {"ipex", Effect::kIdle, "accel-run does not use Intel's extension of PyTorch", kOff},
    {"use_xpu", Effect::kRefused, reasons::kDevice, kOff, "write false"},
};

const std::vector<std::string>& piece_keys() {
  static const std::vector<std::string> keys = {"accelerator", "checkpoint", "log", "submit",
                                                "vars"};
  return keys;
}

/// Top-level keys of recipes.
const std::vector<std::string>& recipe_keys() {
  static const std::vector<std::string> keys = {
      "recipe",    "name",      "include", "seed", "plugins",   "model",    "task",   "data",
      "optimizer", "scheduler", "train",   "eval", "callbacks", "trackers", "expect", "smoke"};
  return keys;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_note(const std::string& key) {
  return key.starts_with("x-");
}

ConfigLayer read_piece(Node tree, Diagnostics& problems) {
  ConfigLayer layer;
  for (Node::Entry& entry : *tree.map()) {
    if (is_note(entry.key) || entry.key == "recipe") continue;
    if (contains(piece_keys(), entry.key)) {
      layer.tree.map()->push_back(std::move(entry));
    } else if (contains(recipe_keys(), entry.key)) {
      problems.error(entry.where, text("'{}' does not belong in a config", entry.key),
                     "write it into the recipe; a config has 'accelerator', 'checkpoint', 'log', "
                     "'submit' and 'vars'");
    } else {
      problems.error(entry.where, text("unknown option '{}'", entry.key),
                     did_you_mean(entry.key, piece_keys()));
    }
  }
  return layer;
}

/// Converts a config of Accelerate to a layer.
class AccelerateConfig {
 public:
  AccelerateConfig(const Node& tree, bool on_cpu, Diagnostics& problems)
      : tree_(tree),
        layer_(problems),
        sharding_(layer_, ShardingLayer::Place::kConfig),
        on_cpu_(on_cpu || flag("use_cpu")) {}

  ConfigLayer read() {
    // The other keys of a SageMaker config describe a machine of Amazon.
    if (const Node::Entry* place = tree_.find("compute_environment");
        place && !is_neutral(place->node, "local_machine")) {
      read_key(*place, config_keys(), {});
      return {};
    }
    for (const Node::Entry& entry : *tree_.map()) read_key(entry, config_keys(), {});
    read_distributed_type();
    read_fp16();
    read_sharding();
    read_fp8();
    layer_.drop_lone_address();
    ConfigLayer layer;
    layer.processes_wanted = processes_wanted();
    layer.tree = layer_.take();
    layer.warnings = layer_.take_warnings();
    layer.remarks = sharding_.take_remarks();
    return layer;
  }

 private:
  const Node* value(std::string_view key) const {
    const Node::Entry* entry = tree_.find(key);
    return entry && !is_neutral(entry->node, {}) ? &entry->node : nullptr;
  }

  /// Errors are reported when the key is read.
  bool flag(std::string_view key) const {
    Diagnostics ignored;
    const Node* found = value(key);
    return found && read_bool(*found, "", ignored).value_or(false);
  }

  /// `prefix` of the keys of a section is optional.
  void read_key(const Node::Entry& entry, std::span<const CompatKey> words,
                const std::string& prefix) {
    const CompatKey* key = find_compat_key(words, entry.key);
    if (!key && !prefix.empty()) key = find_compat_key(words, prefix + entry.key);
    if (!key) {
      layer_.problems().error(entry.where, text("unknown option '{}'", entry.key),
                              did_you_mean(entry.key, key_names(words)));
      return;
    }
    const std::span<const CompatKey> inner = config_section_keys(entry.key);
    if (inner.empty()) {
      if (entry.key == "gpu_ids" && on_cpu_ && !is_neutral(entry.node, "all")) {
        layer_.warn(entry.node.where, "'gpu_ids' has no effect on the CPU");
        return;
      }
      Node value = entry.node;
      if (!value.scalar()) value.where = entry.where;  // sections are located by their key
      layer_.apply(*key, value, key_with_value(entry.key, ": ", value));
    } else if (const Node::Map* section = entry.node.map()) {
      const std::string inner_prefix = entry.key.substr(0, entry.key.find('_') + 1);
      for (const Node::Entry& item : *section) read_key(item, inner, inner_prefix);
    } else if (!entry.node.null()) {
      layer_.problems().error(
          entry.node.where, text("'{}' wants a section, not {}", entry.key, entry.node.describe()));
    }
  }

  void read_sharding() {
    if (flag("use_cpu")) sharding_.set_fact("use_cpu", "true");
    for (const char* name : {"num_machines", "mixed_precision"}) {
      if (const Node* found = value(name); found && found->scalar()) {
        sharding_.set_fact(name, found->scalar()->text);
      }
    }
    for (const ShardingFamily* family : sharding_families()) {
      const Node::Entry* section = tree_.find(family->section);
      if (!section || section->node.null()) continue;
      if (!section->node.map()) {
        layer_.problems().error(section->node.where, text("'{}' wants a section, not {}",
                                                          section->key, section->node.describe()));
        continue;
      }
      for (const Node::Entry& entry : *section->node.map()) {
        sharding_.add(*family, {entry.key, entry.node, entry.where,
                                key_with_value(entry.key, ": ", entry.node)});
      }
    }
    sharding_.finish();
  }

  /// The family of the type, or null.
  static const ShardingFamily* family_of(const std::string& type) {
    for (const ShardingFamily* family : sharding_families()) {
      if (family->type == type) return family;
    }
    return nullptr;
  }

  void read_distributed_type() {
    const Node* type = value("distributed_type");
    if (!type) {
      layer_.problems().error(tree_.where, "'distributed_type' is missing",
                              "write 'distributed_type: NO', or MULTI_CPU or MULTI_GPU");
      return;
    }
    const std::string text = type->scalar() ? type->scalar()->text : "";
    const std::string shown = key_with_value("distributed_type", ": ", *type);
    if (is_neutral(*type, kOff)) {
      check_single_process();
    } else if (!contains(config_distributed_types(), text)) {
      layer_.problems().error(
          type->where,
          accel::text(
              "'distributed_type' wants NO, MULTI_CPU, MULTI_GPU or another type of Accelerate, "
              "not {}",
              type->describe()),
          did_you_mean(text, config_distributed_types()));
    } else if (const ShardingFamily* family = family_of(text)) {
      sharding_.enable(*family, {"distributed_type", *type, type->where, shown});
      set_type(*type);
    } else if (text == "MULTI_CPU" || (text.starts_with("MULTI_") && on_cpu_)) {
      set_type(*type, /*cpu=*/true);
    } else if (text == "MULTI_GPU") {
      set_type(*type);
    } else {
      refuse_type(*type, text, shown);
    }
  }

  void set_type(const Node& type, bool cpu) {
    layer_.set("accelerator.distributed_type",
               scalar_node(cpu ? "multi_cpu" : "multi_gpu", false, type.where));
    if (cpu) layer_.set("accelerator.device", scalar_node("cpu", false, type.where));
  }
  void set_type(const Node& type) { set_type(type, on_cpu_); }

  void refuse_type(const Node& type, const std::string& text, const std::string& shown) {
    const bool gpus = text.starts_with("MULTI_");
    const std::string_view reason = gpus ? reasons::kDevice : reasons::kTpu;
    const std::string_view several = on_cpu_ ? "write 'distributed_type: MULTI_CPU'"
                                             : "write 'distributed_type: MULTI_GPU' or MULTI_CPU";
    layer_.refuse(type.where, shown, reason,
                  gpus ? "write 'use_cpu: true' for the same number of ranks on the CPU" : several);
  }

  /// `distributed_type: NO` is one process. It is not set, so that a recipe or a flag can set
  /// several.
  void check_single_process() {
    const Node* count = value("num_processes");
    const auto number = count && count->scalar() ? parse_integer(*count->scalar()).value : 1;
    if (number.value_or(1) < 2) return;
    layer_.problems().error(count->where,
                            text("'distributed_type' is NO, but 'num_processes' is {}", *number),
                            "write 'distributed_type: MULTI_CPU', or 'num_processes: 1'");
  }

  Span processes_wanted() {
    const Node* count = value("num_processes");
    const Node* type = value("distributed_type");
    if (count && !is_neutral(*count, "-1")) {
      layer_.set("accelerator.num_processes", *count);
      return {};
    }
    if (count) return count->where;
    const std::string word = type && type->scalar() ? type->scalar()->text : "";
    const bool several = word.starts_with("MULTI_") || (!word.empty() && family_of(word));
    return several ? type->where : Span{};
  }

  void read_fp8() {
    const Node::Entry* section = tree_.find("fp8_config");
    if (!section || section->node.null()) return;
    if (!section->node.map()) {
      layer_.problems().error(section->node.where, text("'{}' wants a section, not {}",
                                                        section->key, section->node.describe()));
      return;
    }
    CompatFp8 fp8(layer_);
    for (const Node::Entry& entry : *section->node.map()) {
      if (const Fp8Option* option = find_fp8_option(entry.key)) {
        Node value = entry.node;
        if (!value.scalar()) value.where = entry.where;
        const std::string shown = key_with_value(entry.key, ": ", value);
        if (entry.key != option->name && entry.key != "fp8_" + std::string(option->name)) {
          layer_.warn(value.where, text("'{}' is read as '{}': Accelerate writes this name and "
                                        "does not read it",
                                        shown, option->name));
        }
        fp8.add(*option, value, shown);
        continue;
      }
      std::vector<std::string> names;
      for (const Fp8Option& option : fp8_options()) names.emplace_back(option.name);
      layer_.problems().error(entry.where, text("unknown option '{}'", entry.key),
                              did_you_mean(entry.key, names));
    }
    fp8.finish();
  }

  /// `fp16` is the old name of `mixed_precision`.
  void read_fp16() {
    const Node* old = value("fp16");
    if (!old) return;
    const std::string shown = key_with_value("fp16", ": ", *old);
    if (!read_bool(*old, shown, layer_.problems()).value_or(false)) return;
    const Node* precision = value("mixed_precision");
    if (!precision) {
      layer_.set("accelerator.mixed_precision", scalar_node("fp16", false, old->where));
    } else if (!is_neutral(*precision, "fp16")) {
      layer_.problems().error(old->where,
                              text("'fp16: true' and '{}' contradict each other",
                                   key_with_value("mixed_precision", ": ", *precision)),
                              "remove 'fp16', the old name of 'mixed_precision'");
    }
  }

  const Node& tree_;
  CompatLayer layer_;
  ShardingLayer sharding_;
  bool on_cpu_;
};

}  // namespace

std::span<const CompatKey> config_keys() {
  return kConfigKeys;
}

std::span<const CompatKey> config_section_keys(std::string_view name) {
  if (name == "dynamo_config") return kDynamoKeys;
  if (name == "mpirun_config") return kMpirunKeys;
  if (name == "ipex_config") return kIpexKeys;
  return {};
}

std::vector<std::string> config_distributed_types() {
  return {"NO",         "MULTI_CPU",  "MULTI_GPU",   "MULTI_NPU", "MULTI_MLU",
          "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU",   "MULTI_HPU", "MULTI_NEURON",
          "DEEPSPEED",  "FSDP",       "MEGATRON_LM", "XLA"};
}

std::string default_config_path(const EnvironmentLookup& environment) {
  const auto home_in = [&](std::string path) {
    const std::string home = environment("HOME").value_or("");
    if (path == "~" || path.starts_with("~/")) path = home.empty() ? "" : home + path.substr(1);
    return path;
  };
  std::string folder = environment("HF_HOME").value_or("");
  if (folder.empty()) {
    const std::string cache = environment("XDG_CACHE_HOME").value_or("");
    folder = (cache.empty() ? "~/.cache" : cache) + "/huggingface";
  }
  folder = home_in(folder);
  return folder.empty() ? "" : folder + "/accelerate/default_config.yaml";
}

std::string find_default_config(const EnvironmentLookup& environment) {
  const std::string yaml = default_config_path(environment);
  if (yaml.empty()) return {};
  std::error_code error;
  if (fs::is_regular_file(yaml, error)) return yaml;
  const std::string json = fs::path(yaml).replace_extension(".json").string();
  return fs::is_regular_file(json, error) ? json : "";
}

bool is_recipe_piece(const Node& tree) {
  if (tree.find("compute_environment") || tree.find("distributed_type")) return false;
  return std::any_of(tree.map()->begin(), tree.map()->end(), [](const Node::Entry& entry) {
    return is_note(entry.key) || contains(piece_keys(), entry.key) ||
           contains(recipe_keys(), entry.key);
  });
}

ConfigLayer read_config(const std::string& path, bool on_cpu, Diagnostics& problems) {
  Node tree = parse_config(path);
  if (is_recipe_piece(tree)) return read_piece(std::move(tree), problems);
  return AccelerateConfig(tree, on_cpu, problems).read();
}

}  // namespace accel
