#include "runner/launch/config_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "core/parse.h"
#include "core/scalar.h"
#include "runner/launch/config_keys.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string>& piece_keys() {
  static const std::vector<std::string> keys = {"accelerator", "checkpoint", "log", "vars"};
  return keys;
}

/// Top-level keys of recipes that Accelerate has not.
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

[[noreturn]] void unreadable(const std::string& path, const std::string& reason) {
  throw RecipeError({{{}, "cannot read the config '" + path + "': " + reason, {}}});
}

ConfigLayer read_piece(Node tree, Diagnostics& problems) {
  ConfigLayer layer;
  for (Node::Entry& entry : *tree.map()) {
    if (is_note(entry.key) || entry.key == "recipe") continue;
    if (contains(piece_keys(), entry.key)) {
      layer.tree.map()->push_back(std::move(entry));
    } else if (contains(recipe_keys(), entry.key)) {
      problems.error(entry.where,
                     "'" + entry.key + "' does not belong in a config, which says where to run",
                     "write it into the recipe; a config has 'accelerator', 'checkpoint', 'log' "
                     "and 'vars'");
    } else {
      problems.error(entry.where, "unknown option '" + entry.key + "'",
                     did_you_mean(entry.key, piece_keys()));
    }
  }
  return layer;
}

/// A file of Accelerate's on its way to a layer.
class AccelerateConfig {
 public:
  AccelerateConfig(const Node& tree, bool on_cpu, Diagnostics& problems)
      : tree_(tree), words_(problems), on_cpu_(on_cpu || truth("use_cpu")) {}

  ConfigLayer read() {
    for (const Node::Entry& entry : *tree_.map()) read_key(entry, config_keys(), {});
    read_distributed_type();
    read_fp16();
    ConfigLayer layer;
    layer.processes_wanted = processes_wanted();
    layer.tree = words_.take();
    layer.warnings = words_.take_warnings();
    return layer;
  }

 private:
  const Node* value(std::string_view key) const {
    const Node::Entry* entry = tree_.find(key);
    return entry && !says_nothing(entry->node, {}) ? &entry->node : nullptr;
  }

  /// What is neither is told where the key is read.
  bool truth(std::string_view key) const {
    Diagnostics unsaid;
    const Node* found = value(key);
    return found && read_truth(*found, "", unsaid).value_or(false);
  }

  /// `prefix` is what the keys of a section begin with, and may leave out.
  void read_key(const Node::Entry& entry, std::span<const ForeignWord> words,
                const std::string& prefix) {
    const ForeignWord* word = find_word(words, entry.key);
    if (!word && !prefix.empty()) word = find_word(words, prefix + entry.key);
    if (!word) {
      words_.problems().error(entry.where, "unknown option '" + entry.key + "'",
                              did_you_mean(entry.key, names_of(words)));
      return;
    }
    const std::span<const ForeignWord> inner = config_section_keys(entry.key);
    if (inner.empty()) {
      // Where there is no GPU to choose, the list of them cannot matter.
      if (entry.key == "gpu_ids" && on_cpu_ && !says_nothing(entry.node, "all")) {
        words_.warn(entry.node.where, "'gpu_ids' changes nothing on the CPU");
        return;
      }
      Node value = entry.node;
      if (!value.scalar()) value.where = entry.where;  // a section is spoken of by its key
      words_.apply(*word, value, shown_word(entry.key, ": ", value));
    } else if (const Node::Map* section = entry.node.map()) {
      const std::string inner_prefix = entry.key.substr(0, entry.key.find('_') + 1);
      for (const Node::Entry& item : *section) read_key(item, inner, inner_prefix);
    } else if (!entry.node.null()) {
      words_.problems().error(entry.node.where,
                              "'" + entry.key + "' wants a section, not " + entry.node.describe());
    }
  }

  void read_distributed_type() {
    const Node* type = value("distributed_type");
    if (!type) {
      words_.problems().error(tree_.where, "'distributed_type' is missing",
                              "write 'distributed_type: NO', or MULTI_CPU or MULTI_GPU");
      return;
    }
    const std::string text = type->scalar() ? type->scalar()->text : "";
    const std::string shown = shown_word("distributed_type", ": ", *type);
    if (says_nothing(*type, kOffWords)) {
      check_alone();
    } else if (!contains(config_distributed_types(), text)) {
      words_.problems().error(
          type->where,
          "'distributed_type' wants NO, MULTI_CPU, MULTI_GPU or another type of "
          "Accelerate's, not " +
              type->describe(),
          did_you_mean(text, config_distributed_types()));
    } else if (text == "MULTI_CPU" || (text.starts_with("MULTI_") && on_cpu_)) {
      words_.set("accelerator.distributed_type", scalar_node("multi_cpu", false, type->where));
      words_.set("accelerator.device", scalar_node("cpu", false, type->where));
    } else if (text == "MULTI_GPU") {
      words_.set("accelerator.distributed_type", scalar_node("multi_gpu", false, type->where));
    } else {
      refuse_type(*type, text, shown);
    }
  }

  void refuse_type(const Node& type, const std::string& text, const std::string& shown) {
    const bool gpus = text.starts_with("MULTI_");
    const std::string_view reason = gpus                    ? reasons::kDevice
                                    : text == "DEEPSPEED"   ? reasons::kDeepSpeed
                                    : text == "FSDP"        ? reasons::kSplit
                                    : text == "MEGATRON_LM" ? reasons::kMegatron
                                                            : reasons::kTpu;
    words_.refuse(type.where, shown, reason,
                  gpus ? "write 'use_cpu: true' for as many ranks on the CPU"
                       : "write 'distributed_type: MULTI_CPU'");
  }

  /// `distributed_type: NO` is one process. It is not handed on, so that a recipe or a flag can
  /// still ask for several.
  void check_alone() {
    const Node* count = value("num_processes");
    const auto number = count && count->scalar() ? parse_integer(*count->scalar()).value : 1;
    if (number.value_or(1) < 2) return;
    words_.problems().error(
        count->where, "'distributed_type' is NO, but 'num_processes' is " + std::to_string(*number),
        "write 'distributed_type: MULTI_CPU', or 'num_processes: 1'");
  }

  Span processes_wanted() {
    const Node* count = value("num_processes");
    const Node* type = value("distributed_type");
    if (count && !says_nothing(*count, "-1")) {
      words_.set("accelerator.num_processes", *count);
      return {};
    }
    if (count) return count->where;
    const bool several = type && type->scalar() && type->scalar()->text.starts_with("MULTI_");
    return several ? type->where : Span{};
  }

  /// What `mixed_precision` was called once.
  void read_fp16() {
    const Node* old = value("fp16");
    if (!old) return;
    const std::string shown = shown_word("fp16", ": ", *old);
    if (!read_truth(*old, shown, words_.problems()).value_or(false)) return;
    const Node* precision = value("mixed_precision");
    if (!precision) {
      words_.set("accelerator.mixed_precision", scalar_node("fp16", false, old->where));
    } else if (!says_nothing(*precision, "fp16")) {
      words_.problems().error(old->where,
                              "'fp16: true' and '" +
                                  shown_word("mixed_precision", ": ", *precision) +
                                  "' contradict each other",
                              "'fp16' is the old name: leave it out");
    }
  }

  const Node& tree_;
  WordLayer words_;
  bool on_cpu_;
};

}  // namespace

std::string default_config_path(const Lookup& environment) {
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

std::string find_default_config(const Lookup& environment) {
  const std::string yaml = default_config_path(environment);
  if (yaml.empty()) return {};
  std::error_code error;
  if (fs::is_regular_file(yaml, error)) return yaml;
  const std::string json = fs::path(yaml).replace_extension(".json").string();
  return fs::is_regular_file(json, error) ? json : "";
}

std::string config_file_text(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) unreadable(path, "it is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) unreadable(path, std::strerror(errno));
  // One byte more than a recipe may have, so that parse_recipe sees that it has too many.
  std::string text(kMaxRecipeBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) unreadable(path, "the disk failed");
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

Node parse_config(const std::string& path) {
  Node tree = parse_recipe(path, config_file_text(path));
  if (tree.map()) return tree;
  throw RecipeError(
      {{tree.where,
        tree.null() ? "the config is empty" : "a config is a section, not " + tree.describe(),
        {}}});
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
