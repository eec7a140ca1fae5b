// Filters of chat templates.
#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/text.h"
#include "text/chat/template_values.h"
#include "text/unicode.h"

namespace accel {
namespace {

using Arguments = TemplateArguments;
using Value = TemplateValue;
using Values = std::vector<Value>;

Value joined_text(const Value& value, const Arguments& arguments) {
  const Value by = arguments.get(0, "d"), path = arguments.get(1, "attribute");
  std::string out;
  bool first = true;
  for (const Value& item : items_of(value, arguments.line)) {
    if (!first && is_defined(by)) out += printed(by, arguments.line);
    first = false;
    const bool whole = !is_defined(path);
    out += printed(whole ? item : attribute_of(item, path, arguments.line), arguments.line);
    limit_text(out.size(), arguments.line);
  }
  return out;
}

bool passes(const Value& value, const Arguments& arguments, size_t test) {
  const Value name = arguments.get(test);
  if (!is_defined(name)) return is_true(value);
  return is_kind(as_string(name, "select", arguments.line), value, arguments.after(test + 1));
}

/// The items that pass a test, or, if not `wanted`, fail it.
Value selected(const Value& value, const Arguments& arguments, bool wanted) {
  Values out;
  for (Value& item : items_of(value, arguments.line)) {
    if (passes(item, arguments, 0) == wanted) out.push_back(std::move(item));
  }
  return as_list(std::move(out));
}

/// The same by an attribute of the items.
Value selected_by(const Value& value, const Arguments& arguments, bool wanted) {
  Values out;
  for (Value& item : items_of(value, arguments.line)) {
    const Value found = attribute_of(item, arguments.values.at(0), arguments.line);
    if (passes(found, arguments, 1) == wanted) out.push_back(std::move(item));
  }
  return as_list(std::move(out));
}

Value mapped(const Value& value, const Arguments& arguments) {
  const Value path = arguments.get(std::string::npos, "attribute"),
              otherwise = arguments.get(std::string::npos, "default");
  if (!is_defined(path) && arguments.values.empty()) {
    refuse_template(arguments.line, "'map' requires 'attribute' or a filter");
  }
  Values out;
  for (const Value& item : items_of(value, arguments.line)) {
    if (is_defined(path)) {
      const Value found = attribute_of(item, path, arguments.line);
      out.push_back(is_defined(found) ? found : otherwise);
    } else {
      out.push_back(filtered(arguments.text("map", 0), item, arguments.after(1)));
    }
  }
  return as_list(std::move(out));
}

/// A value without its case, for the order of strings.
Value folded(const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  return lower_case(value.get_ref<const std::string&>());
}

/// Sorts by `key`, equal ones in their order, which `reverse` keeps too.
void sort_by(Values& items, bool reverse, int line, const std::function<Value(const Value&)>& key) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    Value by = key(item);
    keyed.emplace_back(std::move(by), std::move(item));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? is_less(b.first, a.first, line) : is_less(a.first, b.first, line);
  });
  for (size_t i = 0; i < items.size(); ++i) items[i] = std::move(keyed[i].second);
}

/// The attribute of an item if one is named, without its case.
std::function<Value(const Value&)> key_of(const Value& path, const Value& case_sensitive,
                                          int line) {
  return [path, exact = is_true(case_sensitive), line](const Value& item) {
    return folded(is_defined(path) ? attribute_of(item, path, line) : item, exact);
  };
}

Value sorted(const Value& value, const Arguments& a) {
  Values items = items_of(value, a.line);
  sort_by(items, is_true(a.get(0, "reverse")), a.line,
          key_of(a.get(2, "attribute"), a.get(1, "case_sensitive"), a.line));
  return as_list(std::move(items));
}

Value sorted_pairs(const Value& value, const Arguments& a) {
  const Value by = a.get(1, "by");
  const bool by_value = is_defined(by) && by == "value";
  if (is_defined(by) && !by_value && by != "key") {
    refuse_template(a.line, "'dictsort' sorts by 'key' or 'value'");
  }
  Values items = items_of(pairs_of(value, a.line), a.line);
  sort_by(items, is_true(a.get(2, "reverse")), a.line,
          key_of(Value(by_value ? 1 : 0), a.get(0, "case_sensitive"), a.line));
  return as_list(std::move(items));
}

/// Pairs of a value and the items with it, in the order of the values.
Value grouped(const Value& value, const Arguments& a) {
  const Value path = a.get(0, "attribute"), otherwise = a.get(1, "default");
  const bool exact = is_true(a.get(2, "case_sensitive"));
  if (!is_defined(path)) refuse_template(a.line, "'groupby' requires an attribute");
  const auto found = [&](const Value& item) {
    const Value own = attribute_of(item, path, a.line);
    return is_defined(own) ? own : otherwise;
  };
  Values items = items_of(value, a.line);
  sort_by(items, false, a.line, [&](const Value& item) { return folded(found(item), exact); });
  Value out = Value::array();
  for (const Value& item : items) {
    const Value key = found(item);
    const bool same = !out.empty() && are_equal(folded(out.back()[0], exact), folded(key, exact));
    if (!same) out.push_back(Value::array({key, Value::array()}));
    out.back()[1].push_back(item);
  }
  return out;
}

Value unique(const Value& value, const Arguments& a) {
  const auto key = key_of(a.get(1, "attribute"), a.get(0, "case_sensitive"), a.line);
  Values seen, out;
  for (Value& item : items_of(value, a.line)) {
    Value by = key(item);
    const bool known = std::any_of(seen.begin(), seen.end(),
                                   [&](const Value& other) { return are_equal(other, by); });
    if (known) continue;
    seen.push_back(std::move(by));
    out.push_back(std::move(item));
  }
  return as_list(std::move(out));
}

/// The first of the smallest items, or of the largest.
Value extreme(const Value& value, const Arguments& a, bool largest) {
  const auto key = key_of(a.get(1, "attribute"), a.get(0, "case_sensitive"), a.line);
  const Values items = items_of(value, a.line);
  if (items.empty()) return undefined_value();
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    const Value one = key(items[i]), other = key(items[best]);
    if (largest ? is_less(other, one, a.line) : is_less(one, other, a.line)) best = i;
  }
  return items[best];
}

Value summed(const Value& value, const Arguments& a) {
  const Value path = a.get(0, "attribute"), start = a.get(1, "start");
  Value out = is_defined(start) ? start : Value(0);
  for (const Value& item : items_of(value, a.line)) {
    out = computed("+", out, is_defined(path) ? attribute_of(item, path, a.line) : item, a.line);
  }
  return out;
}

Value whole_number(const Value& value, const Arguments& a) {
  if (value.is_number_integer()) return value;
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_float()) {
    constexpr double kMost = 0x1p63;
    const auto number = value.get<double>();
    if (!(number > -kMost && number < kMost))
      refuse_template(a.line, "computes a number that is too large");
    return static_cast<int64_t>(number);
  }
  const int64_t otherwise = a.integer(0, "default", 0);
  if (!value.is_string()) return otherwise;
  const std::string text = stripped(value.get_ref<const std::string&>(), true, true);
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const bool digits = text.size() > sign && text.size() < 18 &&
                      text.find_first_not_of("0123456789", sign) == std::string::npos;
  if (digits) return static_cast<int64_t>(std::stoll(text));
  const bool odd = text.find_first_of("0123456789") != std::string::npos;
  if (odd) refuse_template(a.line, "'int' requires an integer");
  return otherwise;
}

Value real_number(const Value& value, const Arguments& a) {
  if (value.is_number() || value.is_boolean()) return computed("*", value, 1.0, a.line);
  if (!value.is_string()) return is_defined(a.get(0)) ? a.get(0) : Value(0.0);
  const std::string text = stripped(value.get_ref<const std::string&>(), true, true);
  const Value number = Value::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!number.is_number()) refuse_template(a.line, "'float' requires a number");
  return number.get<double>();
}

Value rounded(const Value& value, const Arguments& a) {
  const int64_t precision = a.integer(0, "precision", 0);
  const Value method = a.get(1, "method");
  if (!value.is_number() || precision < 0 || precision > 15 || is_defined(method)) {
    refuse_template(a.line, "'round' of this value or with these arguments is not supported");
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  return std::nearbyint(value.get<double>() * scale) / scale;
}

Value indented(const Value& value, const Arguments& a) {
  const Value width = a.get(0, "width");
  const int64_t spaces = width.is_string() ? 0 : a.integer(0, "width", 4);
  if (spaces < 0 || spaces > 1000) refuse_template(a.line, "'indent' is out of bounds");
  const std::string by =
      width.is_string() ? width.get<std::string>() : std::string(static_cast<size_t>(spaces), ' ');
  const bool first = is_true(a.get(1, "first")), blank = is_true(a.get(2, "blank"));
  std::string out;
  const std::vector<std::string> lines = lines_of(printed(value, a.line) + "\n");
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i == 0 ? first : blank || !lines[i].empty()) out += by;
    out += lines[i];
    limit_text(out.size(), a.line);
  }
  return out;
}

/// Jinja's title, which starts words at white space, hyphens and opening brackets.
Value titled(const Value& value, const Arguments& a) {
  std::string out, word;
  const auto end_word = [&] { out += capitalized(std::exchange(word, ""), a.line); };
  for (const Value& each : characters_of(printed(value, a.line))) {
    const auto& c = each.get_ref<const std::string&>();
    if (std::string_view("-({[<").find(c) == std::string_view::npos &&
        !stripped(c, true, true).empty()) {
      word += c;
    } else {
      end_word();
      out += c;
    }
  }
  end_word();
  return out;
}

Value json_text(const Value& value, const Arguments& a) {
  PythonJson format;
  const Value indent = a.get(1, "indent"), separators = a.get(2, "separators");
  format.ascii = is_true(a.get(0, "ensure_ascii"));
  format.sort_keys = is_true(a.get(3, "sort_keys"));
  if (is_defined(indent) && !indent.is_null()) {
    const int64_t wide = a.integer(1, "indent", 0);
    if (wide > 16) refuse_template(a.line, "'indent' is more than 16");
    format.indent = static_cast<int>(std::max<int64_t>(wide, 0));
    format.item_separator = ",";
  }
  if (is_defined(separators) && !separators.is_null()) {
    if (!separators.is_array() || separators.size() != 2 || !separators[0].is_string() ||
        !separators[1].is_string()) {
      refuse_template(a.line, "'separators' requires two strings");
    }
    format.item_separator = separators[0].get<std::string>();
    format.key_separator = separators[1].get<std::string>();
  }
  return python_json(value, format, a.line);
}

struct Filter {
  size_t least = 0;  ///< arguments
  size_t most = 0;
  std::function<Value(const Value&, const Arguments&)> run;
  std::vector<std::string_view> names = {};
};
using Filters = std::map<std::string, Filter>;

void add_text_filters(Filters& to) {
  const auto string_filter = [](std::string (*run)(const std::string&, int)) {
    return [run](const Value& v, const Arguments& a) -> Value {
      return run(printed(v, a.line), a.line);
    };
  };
  to["upper"] = {0, 0, string_filter(upper_text)};
  to["capitalize"] = {0, 0, string_filter(capitalized)};
  to["lower"] = {0, 0, string_filter([](const std::string& v, int) { return lower_case(v); })};
  // Without autoescape, a safe string is printed like any other.
  to["string"] = to["safe"] = {0, 0, string_filter([](const std::string& v, int) { return v; })};
  to["title"] = {0, 0, titled};
  to["trim"] = {0,
                1,
                [](const Value& v, const Arguments& a) -> Value {
                  const std::string text = printed(v, a.line);
                  const Value of = a.get(0, "chars");
                  return is_defined(of)
                             ? stripped_of(text, as_string(of, "trim", a.line), true, true)
                             : stripped(text, true, true);
                },
                {"chars"}};
  to["indent"] = {0, 3, indented, {"width", "first", "blank"}};
  to["join"] = {0, 2, joined_text, {"d", "attribute"}};
  to["replace"] = {2,
                   3,
                   [](const Value& v, const Arguments& a) -> Value {
                     return replaced_text(printed(v, a.line), a);
                   },
                   {"count"}};
  to["format"] = {0, 20, [](const Value& v, const Arguments& a) -> Value {
                    return percent_formatted(printed(v, a.line), a);
                  }};
  to["tojson"] = {0, 4, json_text, {"ensure_ascii", "indent", "separators", "sort_keys"}};
}

void add_list_filters(Filters& to) {
  const auto both = [](auto run, bool flag) {
    return [run, flag](const Value& v, const Arguments& a) { return run(v, a, flag); };
  };
  to["select"] = {0, 3, both(selected, true)};
  to["reject"] = {0, 3, both(selected, false)};
  to["selectattr"] = {1, 4, both(selected_by, true)};
  to["rejectattr"] = {1, 4, both(selected_by, false)};
  to["map"] = {0, 4, mapped, {"attribute", "default"}};
  to["sort"] = {0, 3, sorted, {"reverse", "case_sensitive", "attribute"}};
  to["dictsort"] = {0, 3, sorted_pairs, {"case_sensitive", "by", "reverse"}};
  to["groupby"] = {0, 3, grouped, {"attribute", "default", "case_sensitive"}};
  to["unique"] = {0, 2, unique, {"case_sensitive", "attribute"}};
  to["min"] = {0, 2, both(extreme, false), {"case_sensitive", "attribute"}};
  to["max"] = {0, 2, both(extreme, true), {"case_sensitive", "attribute"}};
  to["sum"] = {0, 2, summed, {"attribute", "start"}};
  to["length"] =
      to["count"] = {0, 0, [](const Value& v, const Arguments& a) { return length_of(v, a.line); }};
  to["list"] = {0, 0,
                [](const Value& v, const Arguments& a) { return as_list(items_of(v, a.line)); }};
  to["items"] = {0, 0, [](const Value& v, const Arguments& a) {
                   return is_defined(v) ? pairs_of(v, a.line) : Value::array();
                 }};
  to["first"] = {0, 0, [](const Value& v, const Arguments& a) {
                   const Values items = items_of(v, a.line);
                   return items.empty() ? undefined_value() : items.front();
                 }};
  to["last"] = {0, 0, [](const Value& v, const Arguments& a) {
                  const Values items = items_of(v, a.line);
                  return items.empty() ? undefined_value() : items.back();
                }};
  to["reverse"] = {0, 0, [](const Value& v, const Arguments& a) {
                     return sliced(v, {{nullptr, nullptr, -1}, {}, a.line});
                   }};
}

void add_value_filters(Filters& to) {
  to["default"] = to["d"] = {0,
                             2,
                             [](const Value& v, const Arguments& a) -> Value {
                               const bool missing =
                                   is_true(a.get(1, "boolean")) ? !is_true(v) : !is_defined(v);
                               const Value other = a.get(0, "default_value");
                               return !missing ? v : is_defined(other) ? other : Value("");
                             },
                             {"default_value", "boolean"}};
  to["attr"] = {1, 1, [](const Value& v, const Arguments& a) {
                  return is_defined(v) && !v.is_object() ? undefined_value()
                                                         : member_of(v, a.values[0], a.line);
                }};
  to["int"] = {0, 1, whole_number, {"default"}};
  to["float"] = {0, 1, real_number, {"default"}};
  to["round"] = {0, 2, rounded, {"precision", "method"}};
  to["abs"] = {0, 0, [](const Value& v, const Arguments& a) {
                 return is_less(v, 0, a.line) ? computed("-", 0, v, a.line) : v;
               }};
}

const Filters& filters() {
  static const Filters all = [] {
    Filters out;
    add_text_filters(out);
    add_list_filters(out);
    add_value_filters(out);
    return out;
  }();
  return all;
}

}  // namespace

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

}  // namespace accel
