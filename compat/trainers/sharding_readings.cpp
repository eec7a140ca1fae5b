#include "compat/trainers/sharding_readings.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "compat/accelerate/parse_config.h"
#include "compat/sharding/apply_sharding.h"
#include "core/base/text.h"

namespace accel {
namespace {

std::map<std::string, std::string> facts_of(TrainerConfig& config) {
  std::map<std::string, std::string> facts;
  for (const char* precision : {"bf16", "fp16"}) {
    if (config.flag(precision)) facts["mixed_precision"] = precision;
  }
  if (config.flag("use_cpu")) facts["use_cpu"] = "true";
  return facts;
}

/// Reports each option by its ShardingOption::shown, the key of the trainer.
class ImportSink final : public ShardingSink {
 public:
  explicit ImportSink(TrainerConfig& config) : config_(config) {}

  void set(const ShardingOption& option, const std::string& target, Node value) override {
    if (const Node* present = config_.value_of(target)) {
      // Hugging Face's Trainer takes DeepSpeed's optimizer and scheduler, and requires equal values
      // otherwise.
      if (target.ends_with(".type")) {
        leave_type(target, short_value(*present), short_value(value), option);
      } else if (short_value(*present) != short_value(value)) {
        return note(option, text("'{}' of the recipe is from another key", target));
      }
    }
    config_.place(target, std::move(value));
    if (ImportedKey* taken = find(config_.out().taken, option)) {
      taken->target += ", " + target;
    } else {
      config_.out().taken.push_back({key_of(option), option.where, target});
    }
    // Of one key with several options.
    std::erase_if(config_.out().idle,
                  [&](const ImportedKey& each) { return each.key == key_of(option); });
  }
  void keep_same(const ShardingOption& option) override {
    if (find(config_.out().taken, option) || find(config_.out().idle, option)) return;
    config_.out().idle.push_back({key_of(option), option.where, ""});
  }
  void have_no_effect(const ShardingOption& option, const std::string& reason) override {
    keep_same(option);
    config_.remark(text("'{}' has no effect: {}", key_of(option), reason));
  }
  void refuse(const ShardingOption& option, const std::string& reason,
              const std::string&) override {
    note(option, reason);
  }
  void guess(const ShardingOption& option, const std::string& guess) override {
    config_.remark(text("'{}' {}", key_of(option), guess));
  }
  void reject(const ShardingOption& option, const std::string& message,
              const std::string&) override {
    note(option, message);
  }
  void read_file(const ShardingOption& option) override;
  void remark(const std::string& text) override { config_.remark(text); }

 private:
  void note(const ShardingOption& option, const std::string& reason) {
    config_.out().left.push_back({key_of(option), option.where, reason});
  }

  /// The trainer's own type gives way to DeepSpeed's.
  void leave_type(const std::string& target, const std::string& present, const std::string& value,
                  const ShardingOption& option) {
    Imported& out = config_.out();
    std::erase_if(out.defaults,
                  [&](const std::string& each) { return each.starts_with(target + ": "); });
    if (present == value) return;
    const auto own = std::find_if(out.taken.begin(), out.taken.end(), [&](const ImportedKey& each) {
      return each.target.starts_with(target) && each.key != key_of(option);
    });
    if (own == out.taken.end()) return;
    out.left.push_back({own->key, own->where, text("'{}' of DeepSpeed decides", key_of(option))});
    out.taken.erase(own);
  }

  std::string key_of(const ShardingOption& option) const { return config_.prefix() + option.shown; }
  ImportedKey* find(std::vector<ImportedKey>& keys, const ShardingOption& option) const {
    const auto found = std::find_if(keys.begin(), keys.end(), [&](const ImportedKey& each) {
      return each.key == key_of(option);
    });
    return found == keys.end() ? nullptr : &*found;
  }

  TrainerConfig& config_;
};

/// The tree of a file that a key names; null after a note that it cannot be read.
std::optional<Node> file_tree(TrainerConfig& config, const std::string& key,
                              const std::string& path) {
  try {
    return parse_config(path);
  } catch (const RecipeError&) {
    config.skip(key, text("the file '{}' cannot be read from here", path));
    config.miss(text("'{}', which '{}' names: import again where it is", path, key));
    return std::nullopt;
  }
}

void ImportSink::read_file(const ShardingOption& option) {
  const auto tree = file_tree(config_, option.shown, option.value.scalar()->text);
  if (!tree) return;
  config_.out().taken.push_back({key_of(option), option.where, ""});
  std::vector<ShardingOption> options = deepspeed_file_options(*tree);
  for (ShardingOption& each : options) {
    each.shown = option.shown + '.' + each.name;
    each.value.where = each.where;
  }
  apply_sharding({.family = kDeepSpeedFile,
                  .options = std::move(options),
                  .facts = facts_of(config_),
                  .generated = true,
                  .enabled_by = option},
                 *this);
}

ShardingOption option_of(const Node::Entry& entry, const std::string& name, Node value) {
  value.where = entry.where;
  return {name, std::move(value), entry.where, entry.key};
}

/// The words of `fsdp`: strategies, offload, auto_wrap.
void add_fsdp_words(const Node::Entry& entry, std::vector<ShardingOption>& options) {
  std::vector<std::string> words;
  const auto add = [&](const Node& node) {
    if (!node.scalar()) return;
    std::istringstream all(node.scalar()->text);
    for (std::string word; all >> word;) words.push_back(word);
  };
  add(entry.node);
  if (const Node::List* list = entry.node.list()) std::for_each(list->begin(), list->end(), add);
  for (const std::string& word : words) {
    const std::string lower = ascii_lower(word);
    if (lower.empty() || lower == "auto_wrap" || lower == "true") continue;
    const bool offload = lower == "offload";
    options.push_back(option_of(entry, offload ? "offload_params" : "sharding_strategy",
                                scalar_node(offload ? "true" : word)));
  }
}

void add_fsdp_config(TrainerConfig& config, const Node::Entry& entry,
                     std::vector<ShardingOption>& options) {
  std::optional<Node> file;
  const Node* section = &entry.node;
  if (const Scalar* path = section->scalar()) {
    file = file_tree(config, "fsdp_config", path->text);
    if (!file) return;
    section = &*file;
  }
  config.close("fsdp_config");
  for (ShardingOption& option : deepspeed_file_options(*section)) {
    option.shown = "fsdp_config." + option.name;
    option.value.where = option.where;
    options.push_back(std::move(option));
  }
}

void read_fsdp(TrainerConfig& config) {
  const Node::Entry* words = config.find("fsdp");
  const Node::Entry* section = config.find("fsdp_config");
  if (words && is_unset(words->node, "false")) words = nullptr;
  if (section && is_unset(section->node, "false 0")) section = nullptr;
  const Node::Entry* enabled = words ? words : section;
  if (!enabled) return;
  std::vector<ShardingOption> options;
  if (words) add_fsdp_words(*words, options);
  if (section) add_fsdp_config(config, *section, options);
  for (const char* key :
       {"fsdp_version", "fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap"}) {
    const Node::Entry* entry = config.find(key);
    if (!entry) continue;
    options.push_back(option_of(*entry, key, entry->node));
    config.close(key);
  }
  config.close("fsdp");
  ImportSink sink(config);
  apply_sharding({.family = kFsdpFamily,
                  .options = std::move(options),
                  .facts = facts_of(config),
                  .generated = true,
                  .enabled_by = option_of(*enabled, enabled->key, enabled->node)},
                 sink);
  if (words && !config.has("accelerator.fsdp.stage")) config.ignore("fsdp");
}

void read_parallelism(TrainerConfig& config) {
  const Node::Entry* section = config.find("parallelism_config");
  if (!section || !section->node.map()) return;
  std::vector<ShardingOption> options = deepspeed_file_options(section->node);
  for (ShardingOption& each : options) {
    each.shown = "parallelism_config." + each.name;
    each.value.where = each.where;
  }
  config.close("parallelism_config");
  ImportSink sink(config);
  apply_sharding({.family = kParallelismFamily, .options = std::move(options), .generated = true},
                 sink);
}

}  // namespace

void read_trainer_sharding(TrainerConfig& config) {
  read_fsdp(config);
  read_parallelism(config);
  const Node::Entry* file = config.find("deepspeed");
  if (!file) return;
  ImportSink sink(config);
  ShardingOption option = option_of(*file, "deepspeed_config_file", file->node);
  if (file->node.scalar()) {
    sink.read_file(option);
  } else {
    std::vector<ShardingOption> options = deepspeed_file_options(file->node);
    for (ShardingOption& each : options) {
      each.shown = "deepspeed." + each.name;
      each.value.where = each.where;
    }
    apply_sharding({.family = kDeepSpeedFile,
                    .options = std::move(options),
                    .facts = facts_of(config),
                    .generated = true,
                    .enabled_by = option},
                   sink);
  }
  config.close("deepspeed");
}

void read_renamed_sharding(TrainerConfig& config, const ShardingFamily& family,
                           std::span<const RenamedOption> keys) {
  std::vector<ShardingOption> options;
  std::optional<ShardingOption> enabled;
  for (const RenamedOption& each : keys) {
    const Node::Entry* entry = config.find(each.key);
    if (!entry) continue;
    const bool open = entry->node.scalar() && entry->node.scalar()->text == "-1";
    options.push_back(option_of(*entry, each.option, open ? scalar_node("auto") : entry->node));
    if (!enabled) enabled = options.back();
    config.close(each.key);
  }
  if (!enabled) return;
  ImportSink sink(config);
  apply_sharding({.family = family,
                  .options = std::move(options),
                  .generated = true,
                  .enabled_by = std::move(enabled)},
                 sink);
}

void read_sharding_option(TrainerConfig& config, const ShardingFamily& family,
                          const std::string& key, const ShardingWords& words) {
  const Node::Entry* entry = config.find(key);
  if (!entry) return;
  std::vector<ShardingOption> options;
  for (const auto& [option, value] : words) {
    options.push_back(option_of(*entry, option, scalar_node(value)));
  }
  config.close(key);
  ImportSink sink(config);
  const ShardingOption first = options.front();
  apply_sharding(
      {.family = family, .options = std::move(options), .generated = true, .enabled_by = first},
      sink);
}

}  // namespace accel
