#include "text/chat/template_values.h"

#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "text/unicode.h"

namespace accel {
namespace {

constexpr char kIntegerKey = '\xff';

TemplateValue sum(const TemplateValue& left, const TemplateValue& right, int line) {
  if (left.is_string() && right.is_string()) {
    const auto& a = left.get_ref<const std::string&>();
    const auto& b = right.get_ref<const std::string&>();
    limit_text(a.size() + b.size(), line);
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

/// text * count, list * count
TemplateValue repeated(const TemplateValue& value, int64_t count, int line) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (!text.empty() && times > kMaxTemplateBytes / text.size())
      limit_text(std::string::npos, line);
    std::string out;
    for (size_t i = 0; i < times && !text.empty(); ++i) out += text;
    return out;
  }
  if (!value.empty() && times > kMaxTemplateBytes / 64 / value.size()) {
    refuse_template(line, "builds a list that is too long");
  }
  TemplateValue out = TemplateValue::array();
  for (size_t i = 0; i < times && !value.empty(); ++i) {
    for (const TemplateValue& item : value) out.push_back(item);
  }
  return out;
}

int64_t power(int64_t base, int64_t exponent, bool& overflow) {
  int64_t out = 1;
  for (; exponent > 0 && !overflow; exponent /= 2) {
    if (exponent % 2 == 1) overflow = __builtin_mul_overflow(out, base, &out);
    if (exponent > 1 && !overflow) overflow = __builtin_mul_overflow(base, base, &base);
  }
  return out;
}

TemplateValue whole_result(const std::string& name, int64_t a, int64_t b, int line) {
  int64_t out = 0;
  bool overflow = false;
  if (name == "+") overflow = __builtin_add_overflow(a, b, &out);
  if (name == "-") overflow = __builtin_sub_overflow(a, b, &out);
  if (name == "*") overflow = __builtin_mul_overflow(a, b, &out);
  if (name == "**") out = power(a, b, overflow);
  if (name == "//" || name == "%") {
    if (b == 0) refuse_template(line, "divides by 0");
    if (b == -1) {
      overflow = a == INT64_MIN;
      out = name == "//" && !overflow ? -a : 0;
    } else {
      const int64_t rest = a % b, down = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
      out = name == "//" ? a / b - down : rest + (down ? b : 0);
    }
  }
  if (overflow) refuse_template(line, "computes a number that is too large");
  return out;
}

TemplateValue real_result(const std::string& name, double a, double b, int line) {
  if (name == "+") return a + b;
  if (name == "-") return a - b;
  if (name == "*") return a * b;
  if (name == "**") {
    const double out = std::pow(a, b);
    if (!std::isfinite(out)) refuse_template(line, "computes a number that is too large");
    return out;
  }
  if (b == 0) refuse_template(line, "divides by 0");
  if (name == "/") return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return name == "%" ? rest : std::round((a - rest) / b);
}

/// True and False are 1 and 0 in arithmetic.
TemplateValue as_number(const TemplateValue& value) {
  return value.is_boolean() ? TemplateValue(value.get<bool>() ? 1 : 0) : value;
}

TemplateValue arithmetic(const std::string& name, const TemplateValue& first,
                         const TemplateValue& second, int line) {
  const TemplateValue left = as_number(first), right = as_number(second);
  if (!left.is_number() || !right.is_number()) {
    refuse_template(line, text("'{}' requires numbers", name));
  }
  const bool whole = left.is_number_integer() && right.is_number_integer() && name != "/" &&
                     !(name == "**" && right.get<int64_t>() < 0);
  if (whole) return whole_result(name, left.get<int64_t>(), right.get<int64_t>(), line);
  return real_result(name, left.get<double>(), right.get<double>(), line);
}

/// Operators of strings and lists; undefined for others.
TemplateValue sequence_result(const std::string& name, const TemplateValue& left,
                              const TemplateValue& right, int line) {
  const auto is_sequence = [](const TemplateValue& v) { return v.is_string() || v.is_array(); };
  if (name == "+" && !(as_number(left).is_number() && as_number(right).is_number())) {
    return sum(left, right, line);
  }
  if (name == "*" && is_sequence(left) && right.is_number_integer()) {
    return repeated(left, right.get<int64_t>(), line);
  }
  if (name == "*" && is_sequence(right) && left.is_number_integer()) {
    return repeated(right, left.get<int64_t>(), line);
  }
  if (name == "%" && left.is_string()) {
    TemplateArguments values{{}, {}, line};
    if (right.is_array()) {
      for (const TemplateValue& item : right) values.values.push_back(item);
    } else {
      values.values.push_back(right);
    }
    return percent_formatted(left.get_ref<const std::string&>(), values);
  }
  return undefined_value();
}

bool contains(const TemplateValue& whole, const TemplateValue& part, int line) {
  if (whole.is_string() && part.is_string()) {
    return whole.get_ref<const std::string&>().find(part.get_ref<const std::string&>()) !=
           std::string::npos;
  }
  if (whole.is_discarded()) return false;
  if (whole.is_object()) {
    return (part.is_string() || part.is_number_integer()) && whole.contains(stored_key(part, line));
  }
  if (whole.is_array()) {
    return std::any_of(whole.begin(), whole.end(),
                       [&](const TemplateValue& item) { return are_equal(item, part); });
  }
  refuse_template(line, "'in' requires a string, a list or a dict");
}

}  // namespace

TemplateValue make_handle(TemplateHandle kind, size_t number) {
  return TemplateValue::binary({}, static_cast<uint64_t>(kind) << 32 | number);
}

bool is_handle(const TemplateValue& value, TemplateHandle kind) {
  return value.is_binary() && value.get_binary().subtype() >> 32 == static_cast<uint64_t>(kind);
}

size_t handle_number(const TemplateValue& value) {
  return value.get_binary().subtype() & 0xffffffff;
}

bool is_callable(const TemplateValue& value) {
  return value.is_binary() && !is_handle(value, TemplateHandle::kNamespace);
}

void limit_text(size_t bytes, int line) {
  if (bytes > kMaxTemplateBytes) refuse_template(line, "builds a string that is too long");
}

bool is_true(const TemplateValue& value) {
  if (value.is_discarded() || value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return value.is_binary() || !value.empty();
}

bool are_equal(const TemplateValue& left, const TemplateValue& right) {
  if (left.is_discarded() || right.is_discarded()) {
    return left.is_discarded() && right.is_discarded();
  }
  if (left.is_boolean() != right.is_boolean()) return as_number(left) == as_number(right);
  if (left.is_array() && right.is_array()) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), are_equal);
  }
  if (left.is_object() && right.is_object()) {  // in any order
    if (left.size() != right.size()) return false;
    for (const auto& item : left.items()) {
      const auto other = right.find(item.key());
      if (other == right.end() || !are_equal(item.value(), *other)) return false;
    }
    return true;
  }
  return left == right;
}

bool is_less(const TemplateValue& first, const TemplateValue& second, int line) {
  const TemplateValue left = as_number(first), right = as_number(second);
  if (left.is_number() && right.is_number()) return left < right;
  if (left.is_string() && right.is_string()) return left < right;
  if (left.is_array() && right.is_array()) {
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (!are_equal(left[i], right[i])) return is_less(left[i], right[i], line);
    }
    return left.size() < right.size();
  }
  refuse_template(line, "compares values without an order");
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

std::string stored_key(const TemplateValue& key, int line) {
  if (key.is_string()) return key.get<std::string>();
  if (!key.is_number_integer()) refuse_template(line, "a dict key is no string and no integer");
  return kIntegerKey + key.dump();
}

TemplateValue key_value(const std::string& stored) {
  if (!stored.starts_with(kIntegerKey)) return stored;
  return TemplateValue::parse(stored.substr(1));
}

std::vector<TemplateValue> items_of(const TemplateValue& value, int line) {
  if (value.is_discarded()) return {};
  if (value.is_string()) return characters_of(value.get_ref<const std::string&>());
  std::vector<TemplateValue> out;
  if (value.is_object()) {
    for (const auto& item : value.items()) out.push_back(key_value(item.key()));
    return out;
  }
  if (!value.is_array()) refuse_template(line, "loops over a value that is not a list");
  for (const TemplateValue& item : value) out.push_back(item);
  return out;
}

TemplateValue as_list(std::vector<TemplateValue> items) {
  TemplateValue out = TemplateValue::array();
  for (TemplateValue& item : items) out.push_back(std::move(item));
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
  if (value.is_object() && (key.is_string() || key.is_number_integer())) {
    const auto found = value.find(stored_key(key, line));
    return found == value.end() ? undefined_value() : *found;
  }
  // The groups of groupby are pairs with names.
  if (value.is_array() && value.size() == 2 && (key == "grouper" || key == "list")) {
    return value[key == "list" ? 1 : 0];
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

TemplateValue attribute_of(const TemplateValue& value, const TemplateValue& path, int line) {
  if (!path.is_string()) return member_of(value, path, line);
  TemplateValue found = value;
  for (const std::string& part : split_text(path.get_ref<const std::string&>(), ".", -1)) {
    const bool digits = !part.empty() && part.size() < 10 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    found = member_of(found, digits ? TemplateValue(std::stoll(part)) : TemplateValue(part), line);
  }
  return found;
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
  const TemplateValue found = sequence_result(name, left, right, line);
  return is_defined(found) ? found : arithmetic(name, left, right, line);
}

}  // namespace accel
