// Type-erased schema: descriptions of options, read and written through tables of functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/codec.h"
#include "core/recipe/field_info.h"

namespace accel {

namespace detail {

/// Type-erased operations of an option's type: one table per type instead of code per option keeps
/// compile times short.
struct OptionType {
  FieldInfo (*describe)();  ///< type, json, kind and fields; the rest is the option's
  Node (*write)(const void* value);
  /// Replaces `*out` unless something was reported. `rule` is a Rule of the same type.
  void (*read)(void* out, const void* rule, const Node&, const std::string& name, Reading&);
};

/// The node that violates a rule: an item of a list, or the whole value.
const Node& culprit_of(const Node& node, std::optional<size_t> item);
void report_broken_rule(const Node& node, const std::string& name, const std::string& words,
                        const Node& value, Reading& reading);

/// What the declaration of an option says of it beside its type. Views and not strings, since there
/// are hundreds of declarations, whose code is compiled for each.
struct OptionText {
  std::string_view name;
  std::string_view help;
  std::string_view rule = {};  ///< "at least 1", or ""
  std::string_view json = {};  ///< JSON Schema keywords of the rule
};

class SchemaFields {
 public:
  /// `offset` is the option's position in the struct in bytes.
  void add(const OptionType& type, const OptionText& text, size_t offset, const void* fallback,
           std::shared_ptr<const void> rule);
  void add_handled(std::string_view name, std::string_view type, std::string_view help);
  FieldInfo& last() { return fields_.back().info; }
  /// To the option added last.
  void add_hint(std::string_view name, std::string_view value);

  /// `node` with deprecated names replaced, each with a warning.
  Node with_current_names(const Node& node, Reading& reading) const;
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

/// The hint where the section `name`, which has `fields`, is given as one value: a word that other
/// trainers have for one of them.
std::string wrong_section_hint(const Node& value, const std::string& name,
                               const std::vector<FieldInfo>& fields, const Reading& reading);

}  // namespace detail

}  // namespace accel
