// Filters, tests and methods of chat templates.
#include <algorithm>
#include <functional>

#include "core/base/text.h"
#include "text/chat/template_values.h"
#include "text/unicode.h"

namespace accel {
namespace {

using Arguments = TemplateArguments;
using Value = TemplateValue;

const std::string& as_string(const Value& value, const std::string& of, int line) {
  if (!value.is_string()) refuse_template(line, text("'{}' requires a string", of));
  return value.get_ref<const std::string&>();
}

Value as_list(std::vector<Value> items) {
  Value out = Value::array();
  for (Value& item : items) out.push_back(std::move(item));
  return out;
}

std::string upper_text(const std::string& text, int line) {
  std::string out = text;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) >= 0x80) {
      refuse_template(line, "'upper' of non-ASCII characters is not supported");
    }
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

std::string replaced_text(const std::string& text, const std::string& what, const std::string& by,
                          int line) {
  if (what.empty()) refuse_template(line, "'replace' requires a string to search for");
  std::string out;
  for (size_t at = 0;;) {
    const size_t found = text.find(what, at);
    out += text.substr(at, found - at);
    if (out.size() > kMaxTemplateBytes) refuse_template(line, "builds a string that is too long");
    if (found == std::string::npos) return out;
    out += by;
    at = found + what.size();
  }
}

std::vector<Value> parts_of(const std::string& text, const Arguments& arguments) {
  const std::string& by = arguments.text("split", 0);
  if (by.empty()) refuse_template(arguments.line, "'split' requires a separator");
  const Value most = arguments.get(1);
  int64_t left = most.is_number_integer() ? most.get<int64_t>() : -1;
  std::vector<Value> out;
  size_t at = 0;
  for (size_t found = text.find(by); found != std::string::npos && left != 0; --left) {
    out.emplace_back(text.substr(at, found - at));
    at = found + by.size();
    found = text.find(by, at);
  }
  out.emplace_back(text.substr(at));
  return out;
}

Value pairs_of(const Value& value, int line) {
  if (!value.is_object()) refuse_template(line, "'items' requires a dict");
  Value out = Value::array();
  for (const auto& item : value.items()) out.push_back(Value::array({item.key(), item.value()}));
  return out;
}

Value length_of(const Value& value, int line) {
  if (value.is_array() || value.is_object()) return static_cast<int64_t>(value.size());
  return static_cast<int64_t>(items_of(value, line).size());
}

Value joined_text(const Value& value, const Arguments& arguments) {
  const Value by = arguments.get(0, "d");
  std::string out;
  for (const Value& item : items_of(value, arguments.line)) {
    if (!out.empty() && is_defined(by)) out += printed(by, arguments.line);
    out += printed(item, arguments.line);
    if (out.size() > kMaxTemplateBytes)
      refuse_template(arguments.line, "builds a string that is too long");
  }
  return out;
}

/// The items whose member passes a test, or, if not `wanted`, fails it.
Value selected(const Value& value, const Arguments& arguments, bool wanted) {
  const Value& member = arguments.values.at(0);
  const Value test = arguments.get(1);
  Arguments rest{{}, {}, arguments.line};
  for (size_t i = 2; i < arguments.values.size(); ++i) rest.values.push_back(arguments.values[i]);
  Value out = Value::array();
  for (const Value& item : items_of(value, arguments.line)) {
    const Value found = member_of(item, member, arguments.line);
    const bool holds = is_defined(test)
                           ? is_kind(as_string(test, "selectattr", arguments.line), found, rest)
                           : is_true(found);
    if (holds == wanted) out.push_back(item);
  }
  return out;
}

Value members_of(const Value& value, const Arguments& arguments) {
  const Value member = arguments.get(9, "attribute");
  if (!is_defined(member)) {
    refuse_template(arguments.line, "'map' requires 'attribute'");
  }
  Value out = Value::array();
  for (const Value& item : items_of(value, arguments.line)) {
    out.push_back(member_of(item, member, arguments.line));
  }
  return out;
}

Value number_of(const Value& value, int line) {
  if (value.is_number_integer()) return value;
  if (value.is_number_float()) {
    constexpr double kMost = 0x1p63;
    const auto number = value.get<double>();
    if (!(number > -kMost && number < kMost))
      refuse_template(line, "computes a number that is too large");
    return static_cast<int64_t>(number);
  }
  const std::string& text = as_string(value, "int", line);
  const bool digits = !text.empty() && text.size() < 18 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) refuse_template(line, "'int' requires an integer");
  return static_cast<int64_t>(std::stoll(text));
}

struct Filter {
  size_t most;  ///< arguments
  std::function<Value(const Value&, const Arguments&)> run;
  size_t least = 0;
  std::vector<std::string_view> names = {};
};

const std::map<std::string, Filter>& filters() {
  static const std::map<std::string, Filter> all = [] {
    const auto trim = [](const Value& v, const Arguments& a) -> Value {
      return stripped(printed(v, a.line), true, true);
    };
    const auto length = [](const Value& v, const Arguments& a) { return length_of(v, a.line); };
    const auto otherwise = [](const Value& v, const Arguments& a) -> Value {
      const bool missing = is_true(a.get(1, "boolean")) ? !is_true(v) : !is_defined(v);
      const Value other = a.get(0, "default_value");
      return !missing ? v : is_defined(other) ? other : Value("");
    };
    std::map<std::string, Filter> out;
    out["trim"] = {0, trim};
    out["length"] = out["count"] = {0, length};
    out["default"] = out["d"] = {2, otherwise, 0, {"default_value", "boolean"}};
    out["tojson"] = {1,
                     [](const Value& v, const Arguments& a) -> Value {
                       const Value indent = a.get(0, "indent");
                       const bool given = indent.is_number_integer();
                       const int64_t wide = given ? indent.get<int64_t>() : -1;
                       if (wide > 16) refuse_template(a.line, "'indent' is more than 16");
                       return python_json(v, static_cast<int>(std::max<int64_t>(wide, -1)));
                     },
                     0,
                     {"indent"}};
    out["upper"] = {0, [](const Value& v, const Arguments& a) -> Value {
                      return upper_text(printed(v, a.line), a.line);
                    }};
    out["lower"] = {0, [](const Value& v, const Arguments& a) -> Value {
                      return lower_case(printed(v, a.line));
                    }};
    out["string"] = {
        0, [](const Value& v, const Arguments& a) -> Value { return printed(v, a.line); }};
    out["int"] = {0, [](const Value& v, const Arguments& a) { return number_of(v, a.line); }};
    out["list"] = {0,
                   [](const Value& v, const Arguments& a) { return as_list(items_of(v, a.line)); }};
    out["items"] = {0, [](const Value& v, const Arguments& a) { return pairs_of(v, a.line); }};
    out["first"] = {0, [](const Value& v, const Arguments& a) { return member_of(v, 0, a.line); }};
    out["last"] = {0, [](const Value& v, const Arguments& a) { return member_of(v, -1, a.line); }};
    out["reverse"] = {0, [](const Value& v, const Arguments& a) {
                        return sliced(v, {{nullptr, nullptr, -1}, {}, a.line});
                      }};
    out["join"] = {1, joined_text, 0, {"d"}};
    out["replace"] = {2,
                      [](const Value& v, const Arguments& a) -> Value {
                        return replaced_text(printed(v, a.line), a.text("replace", 0),
                                             a.text("replace", 1), a.line);
                      },
                      2};
    out["selectattr"] = {3, [](const Value& v, const Arguments& a) { return selected(v, a, true); },
                         1};
    out["rejectattr"] = {
        3, [](const Value& v, const Arguments& a) { return selected(v, a, false); }, 1};
    out["map"] = {0, members_of, 0, {"attribute"}};
    return out;
  }();
  return all;
}

}  // namespace

TemplateValue TemplateArguments::get(size_t index, const std::string& name) const {
  if (index < values.size()) return values[index];
  const auto found = named.find(name);
  return found == named.end() ? undefined_value() : found->second;
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

TemplateValue filtered(const std::string& name, const TemplateValue& value,
                       const TemplateArguments& arguments) {
  const auto found = filters().find(name);
  if (found == filters().end()) {
    refuse_template(arguments.line, text("the filter '{}' is not supported", name));
  }
  const Filter& filter = found->second;
  for (const auto& [key, unused] : arguments.named) {
    if (std::find(filter.names.begin(), filter.names.end(), key) == filter.names.end()) {
      refuse_template(arguments.line, text("'{}' with '{}' is not supported", name, key));
    }
  }
  if (arguments.values.size() < filter.least || arguments.values.size() > filter.most) {
    arguments.want(name, filter.least, filter.most);
  }
  return filter.run(value, arguments);
}

bool is_kind(const std::string& name, const TemplateValue& value,
             const TemplateArguments& arguments) {
  if (name == "equalto" || name == "eq" || name == "ne" || name == "in") {
    arguments.want(name, 1, 1);
    if (name == "in") return computed("in", value, arguments.values[0], arguments.line).get<bool>();
    return are_equal(value, arguments.values[0]) == (name != "ne");
  }
  arguments.want(name, 0, 0);
  if (name == "defined") return is_defined(value);
  if (name == "undefined") return !is_defined(value);
  if (name == "none") return value.is_null();
  if (name == "string") return value.is_string();
  if (name == "mapping") return value.is_object();
  if (name == "number") return value.is_number() || value.is_boolean();
  if (name == "integer") return value.is_number_integer();
  if (name == "float") return value.is_number_float();
  if (name == "boolean") return value.is_boolean();
  if (name == "true") return value.is_boolean() && value.get<bool>();
  if (name == "false") return value.is_boolean() && !value.get<bool>();
  // In Jinja even undefined values are iterable.
  if (name == "iterable") return value.is_structured() || value.is_string() || !is_defined(value);
  if (name == "sequence") return value.is_structured() || value.is_string() || !is_defined(value);
  refuse_template(arguments.line, text("the test '{}' is not supported", name));
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
  if (name == "values") {
    Value out = Value::array();
    for (const Value& item : value) out.push_back(item);
    return out;
  }
  refuse_template(arguments.line, text("the method '{}' of a dict is not supported", name));
}

/// str.strip(of)
std::string stripped_of(const std::string& text, const std::string& of, bool front, bool back) {
  const size_t begin = front ? std::min(text.find_first_not_of(of), text.size()) : 0;
  const size_t last = back ? text.find_last_not_of(of) : text.size() - 1;
  return last == std::string::npos || last < begin ? "" : text.substr(begin, last + 1 - begin);
}

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

}  // namespace

TemplateValue method_of(const TemplateValue& value, const std::string& name,
                        const TemplateArguments& arguments) {
  const int line = arguments.line;
  if (value.is_object()) return dict_method(value, name, arguments);
  if (!value.is_string()) {
    refuse_template(line, is_defined(value) ? text("the method '{}' is not supported", name)
                                            : text("calls '{}' of an undefined value", name));
  }
  const std::string& text = value.get_ref<const std::string&>();
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    arguments.want(name, 0, 1);
    const bool front = name != "rstrip", back = name != "lstrip";
    if (arguments.values.empty()) return stripped(text, front, back);
    const std::string& of = arguments.text(name, 0);
    if (!is_ascii(of))
      refuse_template(line, accel::text("'{}' of non-ASCII characters is not supported", name));
    return stripped_of(text, of, front, back);
  }
  if (name == "split") {
    arguments.want(name, 1, 2);
    return as_list(parts_of(text, arguments));
  }
  if (name == "replace") {
    arguments.want(name, 2, 2);
    return replaced_text(text, arguments.text(name, 0), arguments.text(name, 1), line);
  }
  if (name == "startswith" || name == "endswith") {
    arguments.want(name, 1, 1);
    const std::string& part = arguments.text(name, 0);
    return name == "startswith" ? text.starts_with(part) : text.ends_with(part);
  }
  if (name == "upper" || name == "lower") {
    arguments.want(name, 0, 0);
    return name == "upper" ? upper_text(text, line) : lower_case(text);
  }
  refuse_template(line, accel::text("the method '{}' of a string is not supported", name));
}

}  // namespace accel
