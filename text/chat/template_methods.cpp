// Arguments, tests and methods of chat templates.
#include <algorithm>
#include <functional>

#include "core/base/text.h"
#include "text/chat/template_values.h"
#include "text/unicode.h"

namespace accel {
namespace {

using Arguments = TemplateArguments;
using Value = TemplateValue;

/// Tests with one argument, by the operator that they are.
const std::map<std::string, std::string>& comparisons() {
  static const std::map<std::string, std::string> all = {
      {"equalto", "=="}, {"eq", "=="}, {"==", "=="},      {"ne", "!="},
      {"!=", "!="},      {"lt", "<"},  {"lessthan", "<"}, {"<", "<"},
      {"le", "<="},      {"<=", "<="}, {"gt", ">"},       {"greaterthan", ">"},
      {">", ">"},        {"ge", ">="}, {">=", ">="},      {"in", "in"}};
  return all;
}

bool is_cased(const Value& value, bool upper, int line) {
  const std::string text = printed(value, line), other = upper_text(text, line);
  return text == (upper ? other : lower_case(text)) && other != lower_case(text);
}

using Test = bool (*)(const Value&, int line);

const std::map<std::string, Test>& tests() {
  // In Jinja even undefined values are iterable.
  static constexpr Test kIterable = [](const Value& v, int) {
    return v.is_structured() || v.is_string() || !is_defined(v);
  };
  static const std::map<std::string, Test> all = {
      {"defined", [](const Value& v, int) { return is_defined(v); }},
      {"undefined", [](const Value& v, int) { return !is_defined(v); }},
      {"none", [](const Value& v, int) { return v.is_null(); }},
      {"string", [](const Value& v, int) { return v.is_string(); }},
      {"mapping", [](const Value& v, int) { return v.is_object(); }},
      {"number", [](const Value& v, int) { return v.is_number() || v.is_boolean(); }},
      {"integer", [](const Value& v, int) { return v.is_number_integer(); }},
      {"float", [](const Value& v, int) { return v.is_number_float(); }},
      {"boolean", [](const Value& v, int) { return v.is_boolean(); }},
      {"true", [](const Value& v, int) { return v.is_boolean() && v.get<bool>(); }},
      {"false", [](const Value& v, int) { return v.is_boolean() && !v.get<bool>(); }},
      {"iterable", kIterable},
      {"sequence", kIterable},
      {"callable", [](const Value& v, int) { return is_callable(v); }},
      {"upper", [](const Value& v, int line) { return is_cased(v, true, line); }},
      {"lower", [](const Value& v, int line) { return is_cased(v, false, line); }},
      {"odd", [](const Value& v, int line) { return computed("%", v, 2, line) == 1; }},
      {"even", [](const Value& v, int line) { return computed("%", v, 2, line) == 0; }},
  };
  return all;
}

}  // namespace

TemplateValue TemplateArguments::get(size_t index, const std::string& name) const {
  if (index < values.size()) return values[index];
  const auto found = named.find(name);
  return found == named.end() ? undefined_value() : found->second;
}

int64_t TemplateArguments::integer(size_t index, const std::string& name, int64_t otherwise) const {
  const TemplateValue value = get(index, name);
  if (!is_defined(value) || value.is_null()) return otherwise;
  if (!value.is_number_integer())
    refuse_template(line, accel::text("'{}' requires an integer", name));
  return value.get<int64_t>();
}

void TemplateArguments::want(const std::string& of, size_t least, size_t most,
                             std::initializer_list<std::string_view> names) const {
  for (const auto& [name, value] : named) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      refuse_template(line, accel::text("'{}' with '{}' is not supported", of, name));
    }
  }
  const size_t given = values.size() + named.size();
  if (given < least || given > std::max(most, names.size())) {
    refuse_template(line, accel::text("'{}' with {} arguments is not supported", of, given));
  }
}

const std::string& TemplateArguments::text(const std::string& of, size_t index) const {
  if (index >= values.size()) refuse_template(line, accel::text("'{}' requires a string", of));
  return as_string(values[index], of, line);
}

TemplateArguments TemplateArguments::after(size_t begin) const {
  TemplateArguments out{{}, {}, line};
  for (size_t i = begin; i < values.size(); ++i) out.values.push_back(values[i]);
  return out;
}

bool is_kind(const std::string& name, const TemplateValue& value,
             const TemplateArguments& arguments) {
  if (const auto found = comparisons().find(name); found != comparisons().end()) {
    arguments.want(name, 1, 1);
    return computed(found->second, value, arguments.values.at(0), arguments.line).get<bool>();
  }
  if (name == "divisibleby") {
    arguments.want(name, 1, 1);
    return computed("%", value, arguments.values[0], arguments.line) == 0;
  }
  if (name == "sameas") {
    arguments.want(name, 1, 1);
    const TemplateValue& other = arguments.values[0];
    if (other.is_boolean() || other.is_null()) return value == other;
    refuse_template(arguments.line, "'sameas' requires true, false or none");
  }
  const auto found = tests().find(name);
  if (found == tests().end()) {
    refuse_template(arguments.line, text("the test '{}' is not supported", name));
  }
  arguments.want(name, 0, 0);
  return found->second(value, arguments.line);
}

namespace {

Value dict_method(const Value& value, const std::string& name, const Arguments& arguments) {
  if (name == "get") {
    arguments.want(name, 1, 2);
    const Value found = member_of(value, arguments.values[0], arguments.line);
    if (is_defined(found)) return found;
    return arguments.values.size() > 1 ? arguments.values[1] : Value(nullptr);
  }
  arguments.want(name, 0, 0);
  if (name == "items") return pairs_of(value, arguments.line);
  if (name == "keys") return as_list(items_of(value, arguments.line));
  if (name == "copy") return value;
  if (name == "values") {
    Value out = Value::array();
    for (const Value& item : value) out.push_back(item);
    return out;
  }
  refuse_template(arguments.line, text("the method '{}' of a dict is not supported", name));
}

Value list_method(const Value& value, const std::string& name, const Arguments& arguments) {
  if (name != "index" && name != "count") {
    refuse_template(arguments.line, text("the method '{}' of a list is not supported", name));
  }
  arguments.want(name, 1, 1);
  int64_t count = 0, at = 0;
  for (const Value& item : value) {
    const bool same = are_equal(item, arguments.values[0]);
    if (same && name == "index") return at;
    count += same ? 1 : 0;
    ++at;
  }
  if (name == "index") refuse_template(arguments.line, "'index' of a value that the list lacks");
  return count;
}

/// Characters in front of a byte.
int64_t character_index(const std::string& text, size_t byte) {
  return static_cast<int64_t>(characters_of(text.substr(0, byte)).size());
}

Value position_in(const std::string& text, const std::string& name, const Arguments& arguments) {
  arguments.want(name, 1, 1);
  const std::string& part = arguments.text(name, 0);
  const size_t found = name == "rfind" ? text.rfind(part) : text.find(part);
  if (found != text.npos) return character_index(text, found);
  if (name == "index") refuse_template(arguments.line, "'index' of a text that the string lacks");
  return -1;
}

Value texts(const std::vector<std::string>& parts) {
  Value out = Value::array();
  for (const std::string& part : parts) out.push_back(part);
  return out;
}

/// split() without a separator: the words between white space.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::string word;
  for (const Value& each : characters_of(text)) {
    const auto& c = each.get_ref<const std::string&>();
    if (!stripped(c, true, true).empty()) {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::exchange(word, ""));
    }
  }
  if (!word.empty()) out.push_back(std::move(word));
  return out;
}

Value split_parts(const std::string& text, const std::string& name, const Arguments& arguments) {
  const Value separator = arguments.get(0, "sep");
  const int64_t most = arguments.integer(1, "maxsplit", -1);
  if (!is_defined(separator) || separator.is_null()) {
    if (most >= 0) refuse_template(arguments.line, "'split' requires a separator");
    return texts(words_of(text));
  }
  const std::string& by = as_string(separator, name, arguments.line);
  if (by.empty()) refuse_template(arguments.line, "'split' requires a separator");
  if (name == "split" || most < 0) return texts(split_text(text, by, most));
  std::vector<std::string> parts = split_text(text, by, -1);
  const size_t last = std::min(static_cast<size_t>(most), parts.size() - 1);
  std::string front;
  for (size_t i = 0; i + last < parts.size(); ++i) front += (i > 0 ? by : "") + parts[i];
  std::vector<std::string> out = {front};
  out.insert(out.end(), parts.end() - static_cast<ptrdiff_t>(last), parts.end());
  return texts(out);
}

/// startswith and endswith, of one text or any of a list.
bool has_end(const std::string& text, const std::string& name, const Arguments& arguments) {
  arguments.want(name, 1, 1);
  const auto holds = [&](const Value& part) {
    const std::string& end = as_string(part, name, arguments.line);
    return name == "startswith" ? text.starts_with(end) : text.ends_with(end);
  };
  const Value& ends = arguments.values[0];
  return ends.is_array() ? std::any_of(ends.begin(), ends.end(), holds) : holds(ends);
}

bool all_in(const std::string& text, bool (*holds)(uint32_t)) {
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    if (!holds(code)) return false;
    at += bytes;
  }
  return !text.empty();
}

Value joined_by(const std::string& text, const Arguments& arguments) {
  arguments.want("join", 1, 1);
  std::string out;
  bool first = true;
  for (const Value& item : items_of(arguments.values[0], arguments.line)) {
    out += (first ? "" : text) + as_string(item, "join", arguments.line);
    limit_text(out.size(), arguments.line);
    first = false;
  }
  return out;
}

Value title_method(const std::string& text, int line) {
  std::string out;
  bool inside = false;
  for (const Value& each : characters_of(text)) {
    const auto& c = each.get_ref<const std::string&>();
    const bool letter = upper_text(c, line) != lower_case(c);
    out += letter && !inside ? upper_text(c, line) : lower_case(c);
    inside = letter;
  }
  return out;
}

using Method = std::function<Value(const std::string&, const std::string&, const Arguments&)>;

/// Methods of strings without arguments.
const std::map<std::string, Method>& plain_methods() {
  using Text = const std::string&;
  static const std::map<std::string, Method> all = {
      {"upper", [](Text t, Text, const Arguments& a) { return upper_text(t, a.line); }},
      {"lower", [](Text t, Text, const Arguments&) { return lower_case(t); }},
      {"capitalize", [](Text t, Text, const Arguments& a) { return capitalized(t, a.line); }},
      {"title", [](Text t, Text, const Arguments& a) { return title_method(t, a.line); }},
      {"splitlines", [](Text t, Text, const Arguments&) { return texts(lines_of(t)); }},
      {"isdigit", [](Text t, Text, const Arguments&) { return all_in(t, is_numeric); }},
      {"isnumeric", [](Text t, Text, const Arguments&) { return all_in(t, is_numeric); }},
      {"isspace", [](Text t, Text,
                     const Arguments&) { return !t.empty() && stripped(t, true, true).empty(); }},
      {"isupper", [](Text t, Text, const Arguments& a) { return is_cased(t, true, a.line); }},
      {"islower", [](Text t, Text, const Arguments& a) { return is_cased(t, false, a.line); }},
  };
  return all;
}

const std::map<std::string, Method>& methods() {
  using Text = const std::string&;
  static const Method kStrip = [](Text t, Text name, const Arguments& a) -> Value {
    a.want(name, 0, 1);
    const bool front = name != "rstrip", back = name != "lstrip";
    const Value of = a.get(0);
    if (!is_defined(of) || of.is_null()) return stripped(t, front, back);
    return stripped_of(t, a.text(name, 0), front, back);
  };
  static const Method kSplit = [](Text t, Text name, const Arguments& a) {
    a.want(name, 0, 2, {"sep", "maxsplit"});
    return split_parts(t, name, a);
  };
  static const Method kWithout = [](Text t, Text name, const Arguments& a) -> Value {
    a.want(name, 1, 1);
    const std::string& part = a.text(name, 0);
    if (name == "removeprefix") return t.starts_with(part) ? t.substr(part.size()) : t;
    return t.ends_with(part) ? t.substr(0, t.size() - part.size()) : t;
  };
  static const std::map<std::string, Method> all = {
      {"strip", kStrip},
      {"lstrip", kStrip},
      {"rstrip", kStrip},
      {"split", kSplit},
      {"rsplit", kSplit},
      {"startswith", has_end},
      {"endswith", has_end},
      {"find", position_in},
      {"rfind", position_in},
      {"index", position_in},
      {"removeprefix", kWithout},
      {"removesuffix", kWithout},
      {"join", [](Text t, Text, const Arguments& a) { return joined_by(t, a); }},
      {"format", [](Text t, Text, const Arguments& a) { return brace_formatted(t, a); }},
      {"count",
       [](Text t, Text name, const Arguments& a) -> Value {
         a.want(name, 1, 1);
         const std::string& part = a.text(name, 0);
         if (part.empty()) return static_cast<int64_t>(characters_of(t).size()) + 1;
         return static_cast<int64_t>(split_text(t, part, -1).size()) - 1;
       }},
      {"replace",
       [](Text t, Text name, const Arguments& a) {
         a.want(name, 2, 3);
         return replaced_text(t, a);
       }},
  };
  return all;
}

}  // namespace

TemplateValue length_of(const TemplateValue& value, int line) {
  if (value.is_array() || value.is_object()) return static_cast<int64_t>(value.size());
  return static_cast<int64_t>(items_of(value, line).size());
}

TemplateValue pairs_of(const TemplateValue& value, int line) {
  if (!value.is_object()) refuse_template(line, "'items' requires a dict");
  TemplateValue out = TemplateValue::array();
  for (const auto& item : value.items()) {
    out.push_back(TemplateValue::array({key_value(item.key()), item.value()}));
  }
  return out;
}

bool is_dict_method(const std::string& name) {
  return name == "get" || name == "items" || name == "keys" || name == "values" || name == "copy";
}

TemplateValue method_of(const TemplateValue& value, const std::string& name,
                        const TemplateArguments& arguments) {
  const int line = arguments.line;
  if (value.is_object()) return dict_method(value, name, arguments);
  if (value.is_array()) return list_method(value, name, arguments);
  if (!value.is_string()) {
    refuse_template(line, is_defined(value) ? text("the method '{}' is not supported", name)
                                            : text("calls '{}' of an undefined value", name));
  }
  const std::string& text = value.get_ref<const std::string&>();
  if (const auto found = plain_methods().find(name); found != plain_methods().end()) {
    arguments.want(name, 0, 0);
    return found->second(text, name, arguments);
  }
  const auto found = methods().find(name);
  if (found == methods().end()) {
    refuse_template(line, accel::text("the method '{}' of a string is not supported", name));
  }
  return found->second(text, name, arguments);
}

}  // namespace accel
