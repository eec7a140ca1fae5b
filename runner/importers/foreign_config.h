// The config of another trainer while it is made into a recipe: what was asked for, what became of
// each key.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/node.h"

namespace accel {

/// What becomes of a key of another trainer's.
struct ForeignKey {
  enum class Use {
    kCopy,   ///< its value is that of the recipe's key `says`
    kSteps,  ///< likewise, as a number of steps
    kRead,   ///< a peer's own code reads it
    kIdle,   ///< has nothing to do in accel-run, whatever its value; `says` why
    kNot,    ///< accel-run has nothing like it; `says` why
  };
  const char* name;
  Use use;
  const char* says = "";
  /// Values that ask for nothing, in lower case between spaces, besides none and empty ones.
  const char* neutral = "";
};

/// A key that is not, or not wholly, in the recipe.
struct ImportNote {
  std::string key;
  Span where;
  std::string reason;
};

/// What an import gives: the recipe and an account of every key.
struct Imported {
  std::string peer;                  ///< "axolotl"
  Node recipe = {Node::Map{}, {}};   ///< values have the places of the keys they come from
  std::vector<std::string> taken;    ///< keys that the recipe has
  std::vector<std::string> idle;     ///< keys that ask for nothing here
  std::vector<ImportNote> left;      ///< what is not in the recipe
  std::vector<std::string> remarks;  ///< what the recipe does otherwise, though no key says so
};

/// One section of a config, whose keys are read one by one. A key that is asked for is accounted
/// for by whoever asks: the value goes into the recipe by `set`, or is left by `leave`.
class ForeignConfig {
 public:
  /// `prefix` stands before keys in the account: "optimizer.".
  ForeignConfig(const Node& tree, Imported& out, std::string prefix = "")
      : tree_(tree), out_(out), prefix_(std::move(prefix)) {}

  /// Null when the key is not there, or says nothing.
  const Node::Entry* find(const std::string& key) const;
  std::optional<std::string> text(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;
  /// Whether the key is there and true in any of YAML's and Python's spellings.
  bool truth(const std::string& key) const;

  /// Gives the recipe's key a value that comes from `key`.
  void set(const std::string& target, Node value, const std::string& key);
  /// The same for a text in which a `$` is one.
  void set_text(const std::string& target, const std::string& text, const std::string& key);
  /// The value is in the recipe in another form.
  void take(const std::string& key);
  /// The value has nothing to say beside those of other keys.
  void ignore(const std::string& key);
  void leave(const std::string& key, const std::string& reason);
  /// Likewise of one entry inside the value of `key`.
  void leave_inside(const std::string& key, const Node::Entry& entry, const std::string& reason);
  /// What the recipe has of this.
  bool has(const std::string& target) const;
  void remark(const std::string& text) { out_.remarks.push_back(text); }

  /// Does what the table says of every key, after the peer's own code has read its share.
  void settle(std::span<const ForeignKey> keys);

 private:
  void settle_one(const Node::Entry& entry, const ForeignKey& row);

  const Node& tree_;
  Imported& out_;
  std::string prefix_;
  std::set<std::string> settled_;
};

/// Whether a value asks for nothing: none, empty, or one of the words in `neutral`.
bool asks_nothing(const Node& value, std::string_view neutral);

/// A value as people write it on one line; secrets are for the caller not to pass.
std::string short_value(const Node& value);

}  // namespace accel
