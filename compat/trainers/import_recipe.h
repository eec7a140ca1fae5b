// Import of other trainers' configs as recipes, with a report on each key.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compat/trainers/program_index.h"
#include "core/recipe/node.h"

namespace accel {

/// A key of another trainer and its conversion.
struct TrainerKey {
  enum class Use {
    kCopy,   ///< copied to the recipe's key `says`
    kSteps,  ///< likewise, as a number of steps
    kRead,   ///< read by code of the format
    kIdle,   ///< no effect in accel-run
    kNot,    ///< not converted; `says` why
    kLack,   ///< not converted; `says` is the name of a feature that accel-run lacks
    kOther,  ///< selects another method; `says` is the name of the feature that it needs
  };
  const char* name;
  Use use;
  const char* says = "";
  /// Values without effect, in lower case between spaces, besides none and empty ones.
  const char* neutral = "";
};

/// A key in the recipe, or one without effect.
struct ImportedKey {
  std::string key;
  Span where;
  std::string target;  ///< the recipe's keys, with commas between them
};

/// A key that is not, or not completely, in the recipe.
struct ImportNote {
  std::string key;
  Span where;
  std::string reason;
};

/// The recipe and a report on every key.
struct Imported {
  std::string peer;                   ///< "axolotl"
  std::string detected_by;            ///< the keys that show the format, or "--from"
  Node recipe = {Node::Map{}, {}};    ///< values have the locations of their keys
  std::vector<ImportedKey> taken;     ///< keys in the recipe
  std::vector<ImportedKey> idle;      ///< keys without effect
  std::vector<ImportNote> left;       ///< keys that are not in the recipe
  std::vector<Diagnostic> refusals;   ///< why the method cannot be kept: there is no recipe
  std::vector<std::string> defaults;  ///< values of the recipe that are the trainer's defaults
  std::vector<std::string> remarks;   ///< other differences of the recipe
  std::vector<std::string> missing;   ///< files that the recipe needs
};

/// One section of a config. A key is read, then reported: in the recipe by set(), or not by skip().
class TrainerConfig {
 public:
  /// `prefix` of keys in the report: "optimizer.".
  TrainerConfig(const Node& tree, Imported& out, const ProgramIndex& program,
                std::string prefix = "")
      : tree_(tree), out_(out), program_(program), prefix_(std::move(prefix)) {}

  const ProgramIndex& program() const { return program_; }
  Imported& out() { return out_; }
  /// Of keys in the report.
  const std::string& prefix() const { return prefix_; }
  /// Null for a missing or unset key.
  const Node::Entry* find(const std::string& key) const;
  /// Whether the config has the key with the value none.
  bool is_none(const std::string& key) const { return tree_.find(key) && !find(key); }
  std::optional<std::string> text(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;
  /// Whether the key is true in any of YAML's and Python's spellings.
  bool flag(const std::string& key) const;

  /// Sets the recipe's key `target` to a value of `key`; without the key, to the trainer's default.
  void set(const std::string& target, Node value, const std::string& key);
  /// The same for a text; `$` is literal.
  void set_text(const std::string& target, const std::string& text, const std::string& key);
  /// Sets a key that no key of the config stands for.
  void put(const std::string& target, const std::string& text);
  /// Sets a key to a value with its own position.
  void place(const std::string& target, Node value);
  /// Reports the key as in the recipe.
  void take(const std::string& key);
  /// Reports the key as without effect.
  void ignore(const std::string& key);
  /// The keys of the section are reported one by one.
  void close(const std::string& key) { done_.insert(key); }
  void skip(const std::string& key, const std::string& reason);
  /// The same for an entry in the value of `key`.
  void skip_nested(const std::string& key, const Node::Entry& entry, const std::string& reason);
  /// Refuses the config: it has a method that the recipe would not have.
  void refuse(const std::string& key, const std::string& message, const std::string& hint = {});
  /// Refuses it because accel-run lacks a feature.
  void refuse_lacking(const std::string& key, const char* feature);
  /// The recipe's value of the key, or null.
  const Node* value_of(const std::string& target) const;
  bool has(const std::string& target) const { return value_of(target); }
  void remark(const std::string& text) { out_.remarks.push_back(text); }
  void miss(const std::string& text) { out_.missing.push_back(text); }

  /// Converts the keys that are not reported yet by their table.
  void apply_table(std::span<const TrainerKey> keys);

 private:
  void apply_row(const Node::Entry& entry, const TrainerKey& row);

  const Node& tree_;
  Imported& out_;
  const ProgramIndex& program_;
  std::string prefix_;
  std::set<std::string> done_;
};

/// Whether a value is none, empty, or one of the words in `neutral`.
bool is_unset(const Node& value, std::string_view neutral);

/// A value on one line, shortened.
std::string short_value(const Node& value);

/// The config format of a trainer.
struct TrainerFormat {
  const char* name;   ///< "axolotl", for `--from`
  const char* title;  ///< "an axolotl config"
  /// The keys that show the format, or "".
  std::string (*recognized_by)(const Node& tree);
  /// Converts the tree.
  void (*read)(const Node& tree, Imported& out, const ProgramIndex& program);
};

/// All formats, those with unique keys first.
const std::vector<TrainerFormat>& trainer_formats();

/// Converts a config of format `peer`; empty: detected by its keys. Every key of the tree is in
/// `taken`, `idle` or `left`. Throws Error(kRecipe) for an unknown format.
Imported import_recipe(const Node& tree, const std::string& path, const std::string& peer,
                       const ProgramIndex& program = {});

/// Throws RecipeError when the method of the config cannot be kept.
void check_method(const Imported& imported);

/// The recipe as text; comments give the source line of each value.
std::string imported_text(const Imported& imported);

/// A report: keys in the recipe, keys without effect, and keys that are not in the recipe and why,
/// with their shares and positions.
std::string import_report(const Imported& imported);

extern const TrainerFormat kAxolotl;
extern const TrainerFormat kLightning;
extern const TrainerFormat kLlamaFactory;
extern const TrainerFormat kTorchtitan;
extern const TrainerFormat kTorchtune;
extern const TrainerFormat kTrainer;
extern const TrainerFormat kTrl;

}  // namespace accel
