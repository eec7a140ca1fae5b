// Operations on chat template values, with the semantics of Python and Jinja.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/template_tree.h"

namespace accel {

inline bool is_defined(const TemplateValue& value) {
  return !value.is_discarded();
}
inline TemplateValue undefined_value() {
  return TemplateValue(TemplateValue::value_t::discarded);
}

/// Arguments of a call, a filter or a test.
struct TemplateArguments {
  std::vector<TemplateValue> values;
  std::map<std::string, TemplateValue> named;
  int line = 0;

  /// The positional or the keyword argument; undefined when neither is given.
  TemplateValue get(size_t index, const std::string& name = {}) const;
  /// Throws FormatError unless there are `least` to `most` arguments and no keywords but `names`.
  void want(const std::string& of, size_t least, size_t most,
            std::initializer_list<std::string_view> names = {}) const;
  const std::string& text(const std::string& of, size_t index) const;
};

/// Limit of strings and lists that a template builds.
constexpr size_t kMaxTemplateBytes = size_t{4} << 20;

bool is_true(const TemplateValue& value);
bool are_equal(const TemplateValue& left, const TemplateValue& right);
/// str(value). Throws FormatError for lists and dicts, whose Python form is not supported.
std::string printed(const TemplateValue& value, int line);
/// transformers' `tojson`: json.dumps(ensure_ascii=False). `indent` below 0: one line.
std::string python_json(const TemplateValue& value, int indent);
/// Without white space at the front, at the back, or both.
std::string stripped(std::string_view text, bool front, bool back);
/// The characters of a string, each as a string.
std::vector<TemplateValue> characters_of(const std::string& text);
/// The items of a loop: list items, dict keys, characters; none for an undefined value.
std::vector<TemplateValue> items_of(const TemplateValue& value, int line);
/// value[begin:end:step]; a null is an omitted bound.
TemplateValue sliced(const TemplateValue& value, const TemplateArguments& range);
/// value[key] and value.key.
TemplateValue member_of(const TemplateValue& value, const TemplateValue& key, int line);
TemplateValue computed(const std::string& name, const TemplateValue& left,
                       const TemplateValue& right, int line);

TemplateValue filtered(const std::string& name, const TemplateValue& value,
                       const TemplateArguments& arguments);
bool is_kind(const std::string& name, const TemplateValue& value,
             const TemplateArguments& arguments);
/// value.name(...)
TemplateValue method_of(const TemplateValue& value, const std::string& name,
                        const TemplateArguments& arguments);

}  // namespace accel
