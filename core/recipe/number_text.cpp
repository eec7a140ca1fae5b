#include "core/recipe/number_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "core/base/text.h"

namespace accel {
namespace {

/// More digits than any double needs.
constexpr size_t kMaxLength = 400;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string hint_for(std::string_view text) {
  if (text.size() > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'o' || text[1] == 'b')) {
    const int base = text[1] == 'x' ? 16 : text[1] == 'o' ? 8 : 2;
    int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text.data() + 2, text.data() + text.size(), value, base);
    if (error == std::errc() && end == text.data() + text.size()) {
      return accel::text("write numbers in decimal: {}", value);
    }
  }
  const size_t digit = text.find_first_not_of('0');
  const size_t extra = digit != text.npos && digit > 0 && text[digit] == '.' ? digit - 1 : digit;
  if (extra != text.npos && extra > 0) {
    const std::string rest(text.substr(extra));
    if (NumberText::read(rest).valid) return "leave out the leading zero: " + rest;
  }
  if (text.find(',') != text.npos) {
    std::string rest(text);
    std::erase(rest, ',');
    if (NumberText::read(rest).valid) return "leave out the commas: " + rest;
  }
  return {};
}

/// Consumes digits with single underscores between them; false when there are none.
bool take_digits(std::string_view text, size_t& at, std::string& out) {
  const size_t begin = at;
  while (at < text.size()) {
    const bool joint = text[at] == '_' && at > begin && at + 1 < text.size() &&
                       is_digit(text[at - 1]) && is_digit(text[at + 1]);
    if (!joint && !is_digit(text[at])) break;
    if (!joint) out += text[at];
    ++at;
  }
  return at > begin;
}

}  // namespace

NumberText NumberText::read(std::string_view text) {
  NumberText out;
  if (text.size() > kMaxLength) return out;
  size_t at = 0;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) out.negative = text[at++] == '-';
  const size_t begin = at;
  std::string whole, fraction, power;
  const bool has_whole = take_digits(text, at, whole);
  if (at < text.size() && text[at] == '.') {
    out.point = true;
    take_digits(text, ++at, fraction);
  }
  const bool mantissa = has_whole || !fraction.empty();
  if (mantissa && at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    out.exponent = true;
    if (++at < text.size() && (text[at] == '-' || text[at] == '+')) power = text[at++];
    if (!take_digits(text, at, power)) return out;
  }
  const bool leading_zero = whole.size() > 1 && whole[0] == '0';
  if (!mantissa || at != text.size() || leading_zero) {
    out.hint = hint_for(text.substr(begin));
    if (out.negative && !out.hint.empty()) out.hint.insert(out.hint.rfind(' ') + 1, "-");
    return out;
  }
  out.valid = true;
  out.clean = (out.negative ? "-" : "") + (whole.empty() ? "0" : whole) +
              (fraction.empty() ? "" : "." + fraction) + (out.exponent ? "e" + power : "");
  out.digits = whole + fraction;
  out.digits.erase(0, std::min(out.digits.find_first_not_of('0'), out.digits.size()));
  if (out.digits.empty()) out.digits = "0";
  const size_t skip = !power.empty() && power[0] == '+' ? 1 : 0;
  if (out.exponent &&
      std::from_chars(power.data() + skip, power.data() + power.size(), out.scale).ec !=
          std::errc()) {
    out.scale = power[0] == '-' ? -1'000'000 : 1'000'000;
  }
  out.scale -= static_cast<int64_t>(fraction.size());
  return out;
}

std::optional<int64_t> NumberText::whole() const {
  if (!valid) return std::nullopt;
  std::string text = digits;
  if (text == "0") return 0;
  for (int64_t i = scale; i < 0; ++i) {
    if (text.empty() || text.back() != '0') return std::nullopt;
    text.pop_back();
  }
  constexpr int64_t kMostDigits = 19;
  if (scale > kMostDigits || text.size() > kMostDigits) return std::nullopt;
  if (scale > 0) text.append(static_cast<size_t>(scale), '0');
  if (negative) text.insert(0, "-");
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> NumberText::real() const {
  if (!valid) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(clean.data(), clean.data() + clean.size(), value);
  if (error != std::errc() || end != clean.data() + clean.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::string show_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  constexpr double kPlainBelow = 1e15;
  std::array<char, 32> buffer;
  const bool plain = value == std::floor(value) && std::abs(value) < kPlainBelow;
  const auto end = plain ? std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                         std::chars_format::fixed)
                         : std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end.ptr);
  const size_t e = text.find('e');
  if (e != text.npos) {
    // 1e-05 and 1e+20 without the zero and the plus.
    const bool minus = text[e + 1] == '-';
    const size_t digit = text.find_first_not_of("+-0", e + 1);
    text = text.substr(0, e + 1) + (minus ? "-" : "") + text.substr(digit);
  }
  return text;
}

}  // namespace accel
