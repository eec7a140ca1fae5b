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

/// Values that only a rendering knows: TemplateValue holds their kind and number.
enum class TemplateHandle { kMacro, kNamespace, kFunction, kMethod };
TemplateValue make_handle(TemplateHandle kind, size_t number);
bool is_handle(const TemplateValue& value, TemplateHandle kind);
size_t handle_number(const TemplateValue& value);
/// A macro, a function or a method.
bool is_callable(const TemplateValue& value);

/// Arguments of a call, a filter or a test.
struct TemplateArguments {
  std::vector<TemplateValue> values;
  std::map<std::string, TemplateValue> named;
  int line = 0;

  /// The positional or the keyword argument; undefined when neither is given.
  TemplateValue get(size_t index, const std::string& name = {}) const;
  /// The same as an integer. Throws FormatError for another type.
  int64_t integer(size_t index, const std::string& name, int64_t otherwise) const;
  /// Throws FormatError unless there are `least` to `most` arguments and no keywords but `names`.
  void want(const std::string& of, size_t least, size_t most,
            std::initializer_list<std::string_view> names = {}) const;
  const std::string& text(const std::string& of, size_t index) const;
  /// The arguments from `begin` on.
  TemplateArguments after(size_t begin) const;
};

/// Limit of strings and lists that a template builds.
constexpr size_t kMaxTemplateBytes = size_t{4} << 20;
/// Throws FormatError for a string of more bytes.
void limit_text(size_t bytes, int line);

bool is_true(const TemplateValue& value);
bool are_equal(const TemplateValue& left, const TemplateValue& right);
bool is_less(const TemplateValue& left, const TemplateValue& right, int line);
TemplateValue computed(const std::string& name, const TemplateValue& left,
                       const TemplateValue& right, int line);

/// The characters of a string, each as a string.
std::vector<TemplateValue> characters_of(const std::string& text);
/// The key of a dict as a TemplateValue stores it: an integer follows a byte that no text has.
/// Throws FormatError for a key of another type.
std::string stored_key(const TemplateValue& key, int line);
TemplateValue key_value(const std::string& stored);
/// The items of a loop: list items, dict keys, characters; none for an undefined value.
std::vector<TemplateValue> items_of(const TemplateValue& value, int line);
TemplateValue as_list(std::vector<TemplateValue> items);
/// value[begin:end:step]; a null is an omitted bound.
TemplateValue sliced(const TemplateValue& value, const TemplateArguments& range);
/// value[key] and value.key.
TemplateValue member_of(const TemplateValue& value, const TemplateValue& key, int line);
/// The value of an attribute path such as "function.name" or "items.0".
TemplateValue attribute_of(const TemplateValue& value, const TemplateValue& path, int line);

/// str(value). Throws FormatError for functions and namespaces.
std::string printed(const TemplateValue& value, int line);
/// Arguments of Python's json.dumps.
struct PythonJson {
  int indent = -1;  ///< below 0: one line
  bool ascii = false;
  bool sort_keys = false;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string python_json(const TemplateValue& value, const PythonJson& format, int line);
/// Without white space at the front, at the back, or both.
std::string stripped(std::string_view text, bool front, bool back);
/// str.strip(of)
std::string stripped_of(const std::string& text, const std::string& of, bool front, bool back);
/// text % values, and text.format(...).
std::string percent_formatted(const std::string& text, const TemplateArguments& values);
std::string brace_formatted(const std::string& text, const TemplateArguments& values);

const std::string& as_string(const TemplateValue& value, const std::string& of, int line);
std::string upper_text(const std::string& text, int line);
std::string capitalized(const std::string& text, int line);
/// str.replace(what, by, most); every occurrence if `most` is negative.
std::string replaced_text(const std::string& text, const TemplateArguments& arguments);
/// text.split(separator, most); without a limit if `most` is negative.
std::vector<std::string> split_text(const std::string& text, const std::string& separator,
                                    int64_t most);
/// Splits at the ends of lines, as str.splitlines().
std::vector<std::string> lines_of(const std::string& text);

TemplateValue length_of(const TemplateValue& value, int line);
TemplateValue pairs_of(const TemplateValue& value, int line);
TemplateValue filtered(const std::string& name, const TemplateValue& value,
                       const TemplateArguments& arguments);
bool is_kind(const std::string& name, const TemplateValue& value,
             const TemplateArguments& arguments);
/// value.name(...)
TemplateValue method_of(const TemplateValue& value, const std::string& name,
                        const TemplateArguments& arguments);
/// Whether dict.name is a method, which an attribute finds before a key.
bool is_dict_method(const std::string& name);

}  // namespace accel
