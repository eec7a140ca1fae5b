// Values of a chat template, and what can be done with them as Python would.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runner/tokenizers/template_tree.h"

namespace accel {

inline bool is_defined(const TemplateValue& value) {
  return !value.is_discarded();
}
inline TemplateValue undefined_value() {
  return TemplateValue(TemplateValue::value_t::discarded);
}

/// Of a call, a filter or a test.
struct TemplateArguments {
  std::vector<TemplateValue> values;
  std::map<std::string, TemplateValue> named;
  int line = 0;

  /// The value at `place`, or of that name; undefined when neither is given.
  TemplateValue get(size_t place, const std::string& name = {}) const;
  /// Throws FormatError unless there are `least` to `most` values and no names but those.
  void want(const std::string& of, size_t least, size_t most,
            std::initializer_list<std::string_view> names = {}) const;
  const std::string& text(const std::string& of, size_t place) const;
};

/// Texts and lists made by a template are at most so long.
constexpr size_t kMostTemplateBytes = size_t{4} << 20;

bool is_true(const TemplateValue& value);
bool are_equal(const TemplateValue& left, const TemplateValue& right);
/// What printing it gives. Throws FormatError for lists and sections, which Python prints its way.
std::string printed(const TemplateValue& value, int line);
/// As transformers' `tojson`: json.dumps without escapes of letters. `indent` below 0: one line.
std::string python_json(const TemplateValue& value, int indent);
/// White space of both ends, or of one.
std::string stripped(std::string_view text, bool front, bool back);
/// A text's characters, each one a text.
std::vector<TemplateValue> characters_of(const std::string& text);
/// What a loop goes over: items, keys of a section, characters; nothing of what is not defined.
std::vector<TemplateValue> items_of(const TemplateValue& value, int line);
/// value[begin:end:step]; nulls are left out ones.
TemplateValue sliced(const TemplateValue& value, const TemplateArguments& range);
/// value[place] and value.place.
TemplateValue member_of(const TemplateValue& value, const TemplateValue& place, int line);
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
