#include "core/recipe/scalar.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/recipe/diagnostic.h"
#include "core/recipe/number_text.h"

namespace accel {
namespace {

constexpr auto kDropQuotes = "drop the quotes";
constexpr auto kFiniteOnly = "only finite numbers are allowed";
/// Largest range of integers that are exact in a double.
constexpr double kExact = 9007199254740992.0;

struct DurationUnit {
  const char* name;
  Duration::Unit unit;
  double scale;
};

constexpr DurationUnit kDurationUnits[] = {
    {"steps", Duration::Unit::kSteps, 1},     {"step", Duration::Unit::kSteps, 1},
    {"epochs", Duration::Unit::kEpochs, 1},   {"epoch", Duration::Unit::kEpochs, 1},
    {"samples", Duration::Unit::kSamples, 1}, {"sample", Duration::Unit::kSamples, 1},
    {"tokens", Duration::Unit::kTokens, 1},   {"token", Duration::Unit::kTokens, 1},
    {"s", Duration::Unit::kSeconds, 1},       {"seconds", Duration::Unit::kSeconds, 1},
    {"min", Duration::Unit::kSeconds, 60},    {"minutes", Duration::Unit::kSeconds, 60},
    {"h", Duration::Unit::kSeconds, 3600},    {"hours", Duration::Unit::kSeconds, 3600},
    {"d", Duration::Unit::kSeconds, 86400},   {"days", Duration::Unit::kSeconds, 86400},
    {"%", Duration::Unit::kPercent, 1},
};

struct ByteUnit {
  const char* name;
  double scale;
};

constexpr ByteUnit kByteUnits[] = {
    {"B", 1},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"KiB", 1024.0},
    {"MiB", 1024.0 * 1024},
    {"GiB", 1024.0 * 1024 * 1024},
    {"TiB", 1024.0 * 1024 * 1024 * 1024},
};

/// Hint for an unknown unit: one that differs in case, one with this prefix, or the closest.
template <class Units>
std::string unit_hint(const std::string& word, const Units& units) {
  std::vector<std::string> names;
  for (const auto& unit : units) names.push_back(unit.name);
  for (const std::string& name : names) {
    if (ascii_lower(name) == ascii_lower(word)) return text("did you mean '{}'?", name);
  }
  for (const std::string& name : names) {
    if (name.starts_with(word)) return text("did you mean '{}'?", name);
  }
  return did_you_mean(word, names);
}

/// Hint for a scalar that is not a number.
std::string number_hint(const Scalar& scalar) {
  const NumberText number = NumberText::read(scalar.text);
  if (scalar.quoted) return number.valid ? kDropQuotes : "";
  std::string word = scalar.text;
  if (!word.empty() && (word[0] == '-' || word[0] == '+')) word.erase(0, 1);
  if (!word.empty() && word[0] == '.') word.erase(0, 1);
  word = ascii_lower(word);
  if (word == "nan" || word == "inf") return kFiniteOnly;
  return number.hint;
}

/// Splits `2M tokens` into {"2", 1e6, "tokens"}.
struct Quantity {
  std::string number;
  double scale = 1;
  std::string unit;
};

Quantity split_quantity(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && std::string_view("+-.0123456789_eE").find(text[end]) != text.npos) {
    // An `e` is an exponent only inside a number: `3epochs` is 3 and a unit.
    const bool e = text[end] == 'e' || text[end] == 'E';
    if (e && (end + 1 == text.size() ||
              std::string_view("+-0123456789").find(text[end + 1]) == text.npos)) {
      break;
    }
    ++end;
  }
  Quantity out{std::string(text.substr(0, end)), 1, {}};
  std::string_view rest = text.substr(end);
  const auto skip = [&rest] {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  };
  constexpr std::pair<char, double> kScales[] = {{'k', 1e3}, {'M', 1e6}, {'B', 1e9}};
  for (const auto& [letter, scale] : kScales) {
    if (rest.size() > 1 && rest[0] == letter && rest[1] == ' ') {
      out.scale = scale;
      rest.remove_prefix(1);
      break;
    }
  }
  skip();
  out.unit = std::string(rest);
  return out;
}

/// Number times unit of a quantity, or a hint.
template <class Unit, size_t N>
Parsed<double> measure(const Quantity& quantity, const Unit (&units)[N], const Unit*& found) {
  const NumberText number = NumberText::read(quantity.number);
  const std::optional<double> value = number.real();
  if (!value) return {{}, number.hint};
  for (const Unit& unit : units) {
    if (quantity.unit == unit.name) found = &unit;
  }
  if (!found) return {{}, unit_hint(quantity.unit, units)};
  const double product = *value * quantity.scale * found->scale;
  if (product < 0) return {{}, "it cannot be negative"};
  if (!std::isfinite(product)) return {{}, kFiniteOnly};
  return {product, {}};
}

}  // namespace

Parsed<int64_t> parse_integer(const Scalar& scalar) {
  const NumberText number = NumberText::read(scalar.text);
  if (scalar.quoted || !number.valid) return {{}, number_hint(scalar)};
  const std::optional<int64_t> value = number.whole();
  if (value && (!number.point || number.exponent)) return {value, {}};
  if (value) return {{}, text("write {}", *value)};
  if (number.scale >= 0) {
    return {{},
            number.negative ? "the smallest is -9223372036854775808"
                            : "the largest is 9223372036854775807"};
  }
  return {{}, {}};
}

Parsed<double> parse_number(const Scalar& scalar) {
  const NumberText number = NumberText::read(scalar.text);
  if (scalar.quoted || !number.valid) return {{}, number_hint(scalar)};
  if (const std::optional<double> value = number.real()) return {value, {}};
  const bool large = number.scale + static_cast<int64_t>(number.digits.size()) > 0;
  return {{}, large ? "the largest is about 1.8e308" : "the smallest above zero is about 2.2e-308"};
}

Parsed<bool> parse_switch(const Scalar& scalar) {
  const bool yes = scalar.text == "true";
  if (!scalar.quoted && (yes || scalar.text == "false")) return {yes, {}};
  if (scalar.quoted && (yes || scalar.text == "false")) return {{}, kDropQuotes};
  for (const char* word : {"yes", "Yes", "YES", "on", "On", "ON", "True", "TRUE", "y", "Y", "1"}) {
    if (scalar.text == word) return {{}, "write true"};
  }
  for (const char* word :
       {"no", "No", "NO", "off", "Off", "OFF", "False", "FALSE", "n", "N", "0"}) {
    if (scalar.text == word) return {{}, "write false"};
  }
  return {{}, did_you_mean(scalar.text, {"true", "false"})};
}

Parsed<Duration> parse_duration(const Scalar& scalar) {
  Quantity quantity = split_quantity(scalar.text);
  if (quantity.number.empty()) return {};
  if (quantity.unit.empty()) {
    const NumberText number = NumberText::read(quantity.number);
    if (number.valid && (!number.whole() || number.point)) {
      return {{}, text("add a unit: '{} epochs', '{} h'", quantity.number, quantity.number)};
    }
    quantity.unit = "steps";
  }
  const DurationUnit* unit = nullptr;
  const Parsed<double> product = measure(quantity, kDurationUnits, unit);
  if (!product.value) return {{}, product.hint};
  const double value = *product.value;
  const bool counted = unit->unit == Duration::Unit::kSteps ||
                       unit->unit == Duration::Unit::kSamples ||
                       unit->unit == Duration::Unit::kTokens;
  if (counted && value != std::floor(value)) {
    return {{}, text("a number of {} is whole", quantity.unit)};
  }
  if (counted && value > kExact) return {{}, "the largest is 9007199254740992"};
  if (unit->unit == Duration::Unit::kPercent && value > 100) {
    return {{}, "the whole run is 100%"};
  }
  return {Duration{value, unit->unit}, {}};
}

Parsed<ByteSize> parse_byte_size(const Scalar& scalar) {
  Quantity quantity = split_quantity(scalar.text);
  if (quantity.number.empty()) return {};
  if (quantity.unit.empty()) quantity.unit = "B";
  if (quantity.unit == "B") {
    const NumberText number = NumberText::read(quantity.number);
    if (const auto bytes = number.whole(); bytes && *bytes >= 0) return {ByteSize{*bytes}, {}};
  }
  const ByteUnit* unit = nullptr;
  const Parsed<double> product = measure(quantity, kByteUnits, unit);
  if (!product.value) return {{}, product.hint};
  constexpr double kMost = 9.2e18;
  if (*product.value > kMost) return {{}, "the largest is about 8388607 TiB"};
  return {ByteSize{std::llround(*product.value)}, {}};
}

}  // namespace accel
