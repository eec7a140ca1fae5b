// Strings of chat templates: str(), repr(), json.dumps() and the methods of Python's strings.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/base/text.h"
#include "text/chat/template_values.h"
#include "text/unicode.h"

namespace accel {
namespace {

/// str.isspace()
bool is_python_space(uint32_t code) {
  return is_white(code) || (code >= 0x1c && code <= 0x1f);
}

/// repr(float): the shortest digits, with an exponent below -4 and from 16 on.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer;
  const auto digits_of = [&](std::chars_format format) {
    return std::string(buffer.begin(),
                       std::to_chars(buffer.begin(), buffer.end(), value, format).ptr);
  };
  const std::string scientific = digits_of(std::chars_format::scientific);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return scientific;
  const std::string fixed = digits_of(std::chars_format::fixed);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

void append_hex(std::string& out, uint32_t code) {
  const size_t digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
  out.append(1, '\\').append(1, digits == 2 ? 'x' : digits == 4 ? 'u' : 'U');
  for (size_t i = digits; i-- > 0;) out += "0123456789abcdef"[code >> (4 * i) & 0xf];
}

/// repr(str)
std::string quoted_text(const std::string& text) {
  const bool twice = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = twice ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    const size_t named = code < 0x80 ? std::string_view("\n\r\t\\").find(static_cast<char>(code))
                                     : std::string_view::npos;
    if (named != std::string_view::npos) {
      out.append(1, '\\').append(1, "nrt\\"[named]);
    } else if (code == static_cast<uint32_t>(quote)) {
      out.append(1, '\\').append(1, quote);
    } else if (!is_printable(code)) {
      append_hex(out, code);
    } else {
      out += text.substr(at, bytes);
    }
    at += bytes;
  }
  return out + quote;
}

/// repr(value)
std::string represented(const TemplateValue& value, int line) {
  if (value.is_string()) return quoted_text(value.get_ref<const std::string&>());
  if (value.is_discarded()) return "Undefined";
  if (!value.is_structured()) return printed(value, line);
  std::string out(1, value.is_object() ? '{' : '[');
  for (const auto& item : value.items()) {
    if (out.size() > 1) out += ", ";
    if (value.is_object()) out += represented(key_value(item.key()), line) + ": ";
    out += represented(item.value(), line);
    limit_text(out.size(), line);
  }
  return out + (value.is_object() ? '}' : ']');
}

/// One call of json.dumps.
class JsonPrinter {
 public:
  JsonPrinter(const PythonJson& format, int line) : format_(format), line_(line) {}

  void add(const TemplateValue& value, int level = 0) {
    if (value.is_discarded()) refuse_template(line_, "'tojson' of an undefined value");
    if (value.is_binary()) refuse_template(line_, "'tojson' of a function or a namespace");
    if (value.is_number_float()) {
      out += float_text(value.get<double>());
    } else if (!value.is_structured()) {
      out += value.dump(-1, ' ', format_.ascii);
    } else {
      add_items(value, level);
    }
  }

  std::string out;

 private:
  void add_line(int level) {
    if (format_.indent < 0) return;
    out.append(1, '\n').append(static_cast<size_t>(format_.indent * level), ' ');
    limit_text(out.size(), line_);
  }

  void add_items(const TemplateValue& value, int level) {
    std::vector<std::pair<std::string, const TemplateValue*>> items;
    for (const auto& item : value.items())
      items.emplace_back(printed(key_value(item.key()), line_), &item.value());
    if (value.is_object() && format_.sort_keys) std::sort(items.begin(), items.end());
    out += value.is_object() ? '{' : '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += format_.item_separator;
      add_line(level + 1);
      if (value.is_object()) {
        out += TemplateValue(items[i].first).dump(-1, ' ', format_.ascii) + format_.key_separator;
      }
      add(*items[i].second, level + 1);
    }
    if (!items.empty()) add_line(level);
    out += value.is_object() ? '}' : ']';
  }

  const PythonJson& format_;
  int line_;
};

/// The next "%..." of a format: its flags and numbers, and its conversion.
struct Conversion {
  std::string flags;
  char type = '\0';
};

Conversion conversion_at(const std::string& format, size_t& at, int line) {
  Conversion out;
  while (at < format.size() &&
         std::string_view("-0 +.123456789").find(format[at]) != std::string_view::npos) {
    out.flags += format[at++];
  }
  if (at < format.size()) out.type = format[at++];
  const size_t longest = 6;
  const bool known =
      out.type != '\0' && std::string_view("sdifr%").find(out.type) != std::string_view::npos;
  const bool precise = out.flags.find('.') != std::string::npos;
  if (!known || out.flags.size() > longest || (precise && out.type != 'f')) {
    refuse_template(line, "formats with an unsupported conversion");
  }
  return out;
}

std::string converted(const Conversion& conversion, const TemplateValue& value, int line) {
  std::array<char, 400> buffer;
  const auto print = [&](const char* type, auto number) {
    const std::string format = "%" + conversion.flags + type;
    const int size = std::snprintf(buffer.data(), buffer.size(), format.c_str(), number);
    return std::string(buffer.data(), std::min(static_cast<size_t>(size), buffer.size() - 1));
  };
  const bool number = value.is_number();
  if (conversion.type == 'f' && number) return print("f", value.get<double>());
  if (conversion.type == 'd' || conversion.type == 'i') {
    if (value.is_number_integer()) return print("lld", value.get<long long>());
    refuse_template(line, "formats a value that is not an integer with '%d'");
  }
  if (conversion.type == 'f') refuse_template(line, "formats a value that is not a number");
  const std::string text = conversion.type == 'r' ? represented(value, line) : printed(value, line);
  const bool left = conversion.flags.starts_with('-');
  const std::string width = conversion.flags.substr(left ? 1 : 0);
  if (width.find_first_not_of("0123456789") != std::string::npos || width.size() > 3) {
    refuse_template(line, "formats with an unsupported conversion");
  }
  const size_t size = characters_of(text).size(), wide = width.empty() ? 0 : std::stoul(width);
  const std::string padding(wide > size ? wide - size : 0, ' ');
  return left ? text + padding : padding + text;
}

}  // namespace

std::string printed(const TemplateValue& value, int line) {
  if (value.is_discarded()) return "";
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return float_text(value.get<double>());
  if (value.is_number()) return value.dump();
  if (value.is_binary()) refuse_template(line, "prints a function or a namespace");
  return represented(value, line);
}

std::string python_json(const TemplateValue& value, const PythonJson& format, int line) {
  JsonPrinter printer(format, line);
  printer.add(value);
  return std::move(printer.out);
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

std::string stripped_of(const std::string& text, const std::string& of, bool front, bool back) {
  const std::vector<TemplateValue> drop = characters_of(of), all = characters_of(text);
  const auto is_kept = [&](const TemplateValue& c) {
    return std::find(drop.begin(), drop.end(), c) == drop.end();
  };
  const auto begin = front ? std::find_if(all.begin(), all.end(), is_kept) : all.begin();
  auto end = all.end();
  while (back && end != begin && !is_kept(*(end - 1))) --end;
  std::string out;
  for (auto c = begin; c != end; ++c) out += c->get_ref<const std::string&>();
  return out;
}

std::string percent_formatted(const std::string& text, const TemplateArguments& values) {
  std::string out;
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '%') {
      out += text[at++];
      continue;
    }
    const Conversion next = conversion_at(text, ++at, values.line);
    if (next.type == '%') {
      out += '%';
      continue;
    }
    if (used == values.values.size()) refuse_template(values.line, "formats too few values");
    out += converted(next, values.values[used++], values.line);
    limit_text(out.size(), values.line);
  }
  if (used < values.values.size()) refuse_template(values.line, "formats too many values");
  return out;
}

std::string brace_formatted(const std::string& text, const TemplateArguments& values) {
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool twice = at + 1 < text.size() && text[at + 1] == c;
    if ((c != '{' && c != '}') || twice) {
      out += c;
      at += twice && (c == '{' || c == '}') ? 1 : 0;
      continue;
    }
    const size_t end = text.find('}', at);
    const std::string field = end == text.npos ? "?" : text.substr(at + 1, end - at - 1);
    if (c == '}' || field.find_first_of("{}:![.?") != text.npos) {
      refuse_template(values.line, "'format' with this field is not supported");
    }
    const bool digits = field.size() < 4 && field.find_first_not_of("0123456789") == field.npos;
    const size_t index = !digits         ? values.values.size()
                         : field.empty() ? next++
                                         : std::stoul(field);
    const TemplateValue value = values.get(index, field);
    if (!is_defined(value)) refuse_template(values.line, "formats too few values");
    out += printed(value, values.line);
    limit_text(out.size(), values.line);
    at = end;
  }
  return out;
}

const std::string& as_string(const TemplateValue& value, const std::string& of, int line) {
  if (!value.is_string()) refuse_template(line, text("'{}' requires a string", of));
  return value.get_ref<const std::string&>();
}

std::string upper_text(const std::string& text, int line) {
  const auto upper = upper_case(text);
  if (!upper) refuse_template(line, "'upper' of a letter with several capitals is not supported");
  return *upper;
}

std::string capitalized(const std::string& text, int line) {
  if (text.empty()) return text;
  const size_t first = character_at(text, 0).bytes;
  return upper_text(text.substr(0, first), line) + lower_case(text.substr(first));
}

std::string replaced_text(const std::string& text, const TemplateArguments& arguments) {
  const std::string &what = arguments.text("replace", 0), &by = arguments.text("replace", 1);
  int64_t left = arguments.integer(2, "count", -1);
  if (what.empty()) refuse_template(arguments.line, "'replace' requires a string to search for");
  std::string out;
  for (size_t at = 0;; --left) {
    const size_t found = left == 0 ? text.npos : text.find(what, at);
    out += text.substr(at, found - at);
    limit_text(out.size(), arguments.line);
    if (found == std::string::npos) return out;
    out += by;
    at = found + what.size();
  }
}

std::vector<std::string> split_text(const std::string& text, const std::string& separator,
                                    int64_t most) {
  std::vector<std::string> out;
  size_t at = 0;
  for (size_t found = text.find(separator); found != text.npos && most != 0; --most) {
    out.push_back(text.substr(at, found - at));
    at = found + separator.size();
    found = text.find(separator, at);
  }
  out.push_back(text.substr(at));
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::string part;
  for (size_t at = 0; at < text.size();) {
    const auto [code, bytes] = character_at(text, at);
    const bool ends = (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) ||
                      code == 0x85 || code == 0x2028 || code == 0x2029;
    if (!ends) part += text.substr(at, bytes);
    at += bytes;
    if (!ends) continue;
    if (code == 0x0d && at < text.size() && text[at] == '\n') ++at;
    out.push_back(std::exchange(part, ""));
  }
  if (!part.empty()) out.push_back(std::move(part));
  return out;
}

}  // namespace accel
