// A schema but for the type of its struct: what can be said of options, and how they are read and
// written through tables of functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/codec.h"

namespace accel {

/// What a changed value means for a run that is resumed.
enum class Change {
  kFree,        ///< logging, saving, stopping: applied without a word
  kConsent,     ///< other numbers from here on: needs `--allow KEY`
  kImpossible,  ///< the saved state does not fit
};

/// What can be said of one option without knowing its struct.
struct FieldInfo {
  std::string name;
  std::string type;      ///< "a whole number"
  std::string fallback;  ///< the default as a recipe would write it
  std::string help;
  std::string rule;       ///< "at least 1", or ""
  std::string json;       ///< JSON Schema keywords without the braces
  std::string kind = {};  ///< the component kind for a component option, else ""
  bool required = false;
  Change change = Change::kConsent;
  bool handled = false;  ///< consumed before the section is read
  /// Of a nested section; for a component, the keys written beside its own.
  std::vector<FieldInfo> fields = {};
};

namespace detail {

/// What an option's type can do, the type itself forgotten: one table per type instead of code per
/// option keeps a component's file quick to compile.
struct OptionType {
  FieldInfo (*describe)();  ///< type, json, kind and fields; the rest is the option's
  Node (*write)(const void* value);
  /// Replaces `*out` unless something was reported. `rule` is a Rule of the same type.
  void (*read)(void* out, const void* rule, const Node&, const std::string& name, Reading&);
};

/// The node that a rule was broken at: the item of a list, or the whole.
const Node& culprit_of(const Node& node, std::optional<size_t> item);
void report_broken_rule(const Node& node, const std::string& name, const std::string& words,
                        const Node& value, Reading& reading);

class SchemaFields {
 public:
  /// `info` has name, help, rule and the rule's JSON Schema; the rest comes from `type`. `offset`
  /// is the option's place in the struct in bytes.
  void add(const OptionType& type, FieldInfo info, size_t offset, const void* fallback,
           std::shared_ptr<const void> rule);
  void add_handled(std::string name, std::string type, std::string help);
  FieldInfo& last() { return fields_.back().info; }

  /// Reads every option that `node` has into the struct at `out`.
  void read(const Node& node, void* out, Reading& reading) const;
  Node write(const void* options, const Node* given) const;
  std::vector<FieldInfo> info() const;

 private:
  struct Field {
    FieldInfo info;
    const OptionType* type;  ///< null: handled elsewhere
    size_t offset;
    std::shared_ptr<const void> rule;
  };
  std::vector<Field> fields_;
};

/// A default as one line of text: "[128]", "none", "'a text'".
std::string inline_text(const Node& node);

}  // namespace detail

}  // namespace accel
