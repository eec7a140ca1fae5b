// Applies the tables of sharding options to the options of one place.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compat/sharding/sharding_keys.h"
#include "core/recipe/node.h"

namespace accel {

/// An option as it is given.
struct ShardingOption {
  std::string name;  ///< with or without its family's prefix; dotted in a DeepSpeed file
  Node value;
  Span where;         ///< of its key
  std::string shown;  ///< for messages: "fsdp_version: 2"
};

/// Receives what becomes of each option.
class ShardingSink {
 public:
  virtual ~ShardingSink() = default;
  /// `target` is an option of the recipe: "accelerator.fsdp.stage".
  virtual void set(const ShardingOption& option, const std::string& target, Node value) = 0;
  virtual void keep_same(const ShardingOption& option) = 0;
  virtual void have_no_effect(const ShardingOption& option, const std::string& reason) = 0;
  virtual void refuse(const ShardingOption& option, const std::string& reason,
                      const std::string& hint) = 0;
  /// A value that the option depends on is not given and was guessed.
  virtual void guess(const ShardingOption& option, const std::string& guess) = 0;
  /// For a name or a value that the other trainer would not take.
  virtual void reject(const ShardingOption& option, const std::string& message,
                      const std::string& hint) = 0;
  /// The value is the path of a DeepSpeed file.
  virtual void read_file(const ShardingOption& option) = 0;
  virtual void remark(const std::string& text) = 0;
};

/// The options of one family in one place.
struct ShardingOptions {
  const ShardingFamily& family;
  std::vector<ShardingOption> options = {};
  /// What decides besides them: use_cpu, mixed_precision, num_machines.
  std::map<std::string, std::string> facts = {};
  /// A program wrote all options, used or not: those that others disable are no news.
  bool generated = false;
  /// What enables the family; it then has its default stage.
  std::optional<ShardingOption> enabled_by = std::nullopt;
  /// Whether the recipe has an option; by default that of this version.
  std::function<bool(const std::string&)> recipe_has = nullptr;
};

/// Each option goes to `sink` once or, with several targets, by several calls of set().
void apply_sharding(ShardingOptions given, ShardingSink& sink);

/// The options of a DeepSpeed file with dotted names.
std::vector<ShardingOption> deepspeed_file_options(const Node& tree);

/// A key with its scalar value, for ShardingOption::shown: "zero_stage: 2".
std::string shown_option(const std::string& name, const Node& value);

}  // namespace accel
