#include "text/chat/template_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/base/text.h"
#include "text/unicode.h"

namespace accel {
namespace {

/// str.isspace()
bool is_python_space(uint32_t code) {
  return is_white(code) || (code >= 0x1c && code <= 0x1f);
}

std::string float_text(double value, int line) {
  const double size = std::fabs(value);
  if (!std::isfinite(value) || size >= 1e16 || (size > 0 && size < 1e-4)) {
    refuse_template(line, "prints a float in scientific notation, which is not supported");
  }
  std::array<char, 32> text;
  const auto end = std::to_chars(text.begin(), text.end(), value, std::chars_format::fixed).ptr;
  std::string out(text.begin(), end);
  return out.find('.') == std::string::npos ? out + ".0" : out;
}

void add_json(const TemplateValue& value, int indent, int level, std::string& out) {
  const auto line = [&](int depth) {
    if (indent >= 0) out.append("\n").append(static_cast<size_t>(indent * depth), ' ');
  };
  if (!value.is_structured()) {
    out += value.is_discarded() ? "null" : value.dump(-1, ' ', false);
    return;
  }
  const bool object = value.is_object();
  out += object ? '{' : '[';
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) out += indent >= 0 ? "," : ", ";
    first = false;
    line(level + 1);
    if (object) out += TemplateValue(item.key()).dump(-1, ' ', false) + ": ";
    add_json(item.value(), indent, level + 1, out);
  }
  if (!first) line(level);
  out += object ? '}' : ']';
}

TemplateValue sum(const TemplateValue& left, const TemplateValue& right, int line) {
  if (left.is_string() && right.is_string()) {
    const auto& a = left.get_ref<const std::string&>();
    const auto& b = right.get_ref<const std::string&>();
    if (a.size() + b.size() > kMaxTemplateBytes)
      refuse_template(line, "builds a string that is too long");
    return a + b;
  }
  if (left.is_array() && right.is_array()) {
    if (left.size() + right.size() > kMaxTemplateBytes / 64) {
      refuse_template(line, "builds a list that is too long");
    }
    TemplateValue out = left;
    for (const TemplateValue& item : right) out.push_back(item);
    return out;
  }
  refuse_template(line, text("adds a {} and a {}", left.type_name(), right.type_name()));
}

TemplateValue whole_result(char name, int64_t a, int64_t b, int line) {
  int64_t out = 0;
  bool overflow = false;
  if (name == '+') overflow = __builtin_add_overflow(a, b, &out);
  if (name == '-') overflow = __builtin_sub_overflow(a, b, &out);
  if (name == '*') overflow = __builtin_mul_overflow(a, b, &out);
  if (name == '/' || name == '%') {
    if (b == 0) refuse_template(line, "divides by 0");
    if (b == -1) {
      overflow = a == INT64_MIN;
      out = name == '/' && !overflow ? -a : 0;
    } else {
      const int64_t rest = a % b, down = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
      out = name == '/' ? a / b - down : rest + (down ? b : 0);
    }
  }
  if (overflow) refuse_template(line, "computes a number that is too large");
  return out;
}

TemplateValue arithmetic(const std::string& name, const TemplateValue& left,
                         const TemplateValue& right, int line) {
  if (!left.is_number() || !right.is_number()) {
    refuse_template(line, text("'{}' requires numbers", name));
  }
  if (left.is_number_integer() && right.is_number_integer() && name != "/") {
    return whole_result(name[0], left.get<int64_t>(), right.get<int64_t>(), line);
  }
  const double a = left.get<double>(), b = right.get<double>();
  if (name == "+") return a + b;
  if (name == "-") return a - b;
  if (name == "*") return a * b;
  if (b == 0) refuse_template(line, "divides by 0");
  if (name == "/") return a / b;
  refuse_template(line, text("'{}' requires integers", name));
}

bool contains(const TemplateValue& whole, const TemplateValue& part, int line) {
  if (whole.is_string() && part.is_string()) {
    return whole.get_ref<const std::string&>().find(part.get_ref<const std::string&>()) !=
           std::string::npos;
  }
  if (whole.is_object()) return part.is_string() && whole.contains(part.get<std::string>());
  if (whole.is_array()) {
    return std::any_of(whole.begin(), whole.end(),
                       [&](const TemplateValue& item) { return are_equal(item, part); });
  }
  refuse_template(line, "'in' requires a string, a list or a dict");
}

bool is_less(const TemplateValue& left, const TemplateValue& right, int line) {
  if (left.is_number() && right.is_number()) return left < right;
  if (left.is_string() && right.is_string()) return left < right;
  refuse_template(line, "compares values without an order");
}

}  // namespace

bool is_true(const TemplateValue& value) {
  if (value.is_discarded() || value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

bool are_equal(const TemplateValue& left, const TemplateValue& right) {
  if (left.is_discarded() || right.is_discarded()) {
    return left.is_discarded() && right.is_discarded();
  }
  return left == right;
}

std::string printed(const TemplateValue& value, int line) {
  if (value.is_discarded()) return "";
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return float_text(value.get<double>(), line);
  if (value.is_number()) return value.dump();
  refuse_template(line, "prints a list or a dict: use 'tojson'");
}

std::string python_json(const TemplateValue& value, int indent) {
  std::string out;
  add_json(value, indent, 0, out);
  return out;
}

std::string stripped(std::string_view text, bool front, bool back) {
  size_t begin = 0, end = 0;
  bool started = !front;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const bool space = is_python_space(c.code);
    if (!started && !space) begin = at, started = true;
    at += c.bytes;
    if (!space || !back) end = at;
  }
  return started && end > begin ? std::string(text.substr(begin, end - begin)) : std::string();
}

std::vector<TemplateValue> characters_of(const std::string& text) {
  std::vector<TemplateValue> out;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = character_at(text, at).bytes;
    out.emplace_back(text.substr(at, bytes));
    at += bytes;
  }
  return out;
}

std::vector<TemplateValue> items_of(const TemplateValue& value, int line) {
  if (value.is_discarded()) return {};
  if (value.is_string()) return characters_of(value.get_ref<const std::string&>());
  std::vector<TemplateValue> out;
  if (value.is_object()) {
    for (const auto& item : value.items()) out.emplace_back(item.key());
    return out;
  }
  if (!value.is_array()) refuse_template(line, "loops over a value that is not a list");
  for (const TemplateValue& item : value) out.push_back(item);
  return out;
}

TemplateValue sliced(const TemplateValue& value, const TemplateArguments& range) {
  if (!value.is_string() && !value.is_array())
    refuse_template(range.line, "slices a value that is not a list or a string");
  const std::vector<TemplateValue> all = items_of(value, range.line);
  const auto size = static_cast<int64_t>(all.size());
  const auto bound = [&](size_t index, int64_t otherwise) {
    const TemplateValue given = range.values.at(index);
    if (given.is_null()) return otherwise;
    if (!given.is_number_integer())
      refuse_template(range.line, "has a slice bound that is not an integer");
    return given.get<int64_t>();
  };
  const int64_t step = bound(2, 1);
  if (step == 0) refuse_template(range.line, "has a slice step of 0");
  const auto within = [&](int64_t position) {
    if (position < 0) position = std::max<int64_t>(position, -size) + size;
    return std::clamp<int64_t>(position, step < 0 ? -1 : 0, step < 0 ? size - 1 : size);
  };
  const auto from_end = [&](size_t index) {  // -9 of 3 items is before the first
    const int64_t given = bound(index, 0);
    return step < 0 && given < -size ? -1 : within(given);
  };
  const bool no_begin = range.values.at(0).is_null(), no_end = range.values.at(1).is_null();
  const int64_t begin = no_begin ? (step < 0 ? size - 1 : 0) : from_end(0);
  const int64_t end = no_end ? (step < 0 ? -1 : size) : from_end(1);
  TemplateValue list = TemplateValue::array();
  for (int64_t i = begin; step < 0 ? i > end : i < end;) {
    list.push_back(all[static_cast<size_t>(i)]);
    if (step > size || step < -size) break;
    i += step;
  }
  if (value.is_array()) return list;
  std::string text;
  for (const TemplateValue& item : list) text += item.get_ref<const std::string&>();
  return text;
}

TemplateValue member_of(const TemplateValue& value, const TemplateValue& key, int line) {
  if (value.is_discarded()) refuse_template(line, "reads a member of an undefined value");
  if (value.is_object() && key.is_string()) {
    const auto found = value.find(key.get_ref<const std::string&>());
    return found == value.end() ? undefined_value() : *found;
  }
  if (!key.is_number_integer() || !(value.is_array() || value.is_string())) {
    return undefined_value();
  }
  const std::vector<TemplateValue> all = items_of(value, line);
  const auto size = static_cast<int64_t>(all.size());
  int64_t index = key.get<int64_t>();
  if (index < 0) index += size;
  return index < 0 || index >= size ? undefined_value() : all[static_cast<size_t>(index)];
}

TemplateValue computed(const std::string& name, const TemplateValue& left,
                       const TemplateValue& right, int line) {
  if (name == "==") return are_equal(left, right);
  if (name == "!=") return !are_equal(left, right);
  if (left.is_discarded() || right.is_discarded()) {
    if (name == "~") return printed(left, line) + printed(right, line);
    if (name != "in" && name != "not in") refuse_template(line, "uses an undefined value");
  }
  if (name == "in") return contains(right, left, line);
  if (name == "not in") return !contains(right, left, line);
  if (name == "<") return is_less(left, right, line);
  if (name == ">") return is_less(right, left, line);
  if (name == "<=") return !is_less(right, left, line);
  if (name == ">=") return !is_less(left, right, line);
  if (name == "~") return sum(printed(left, line), printed(right, line), line);
  if (name == "+" && !left.is_number()) return sum(left, right, line);
  return arithmetic(name, left, right, line);
}

}  // namespace accel
