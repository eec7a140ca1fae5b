// Text formatting: messages from one literal, so that one search finds each, and lists of names.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace accel {

namespace detail {
/// The text of one value: the string itself, or the digits of an integer.
inline std::string_view text_value(std::string_view value) {
  return value;
}
template <std::integral T>
requires(!std::same_as<T, bool> && !std::same_as<T, char>) std::string text_value(T value) {
  return std::to_string(value);
}

constexpr size_t placeholders(std::string_view format) {
  size_t count = 0;
  for (size_t at = format.find("{}"); at != format.npos; at = format.find("{}", at + 2)) ++count;
  return count;
}

std::string fill_text(std::string_view format, const std::string_view* values);

/// Format literal; the number of placeholders is checked at compile time.
template <class... Values>
struct TextFormat {
  template <size_t Size>
  consteval TextFormat(const char (&literal)[Size]) : format(literal, Size - 1) {
    if (placeholders(format) != sizeof...(Values))
      throw "the number of {} differs from the number of values";
  }
  std::string_view format;
};
}  // namespace detail

/// `format` with each `{}` replaced by the next value: `text("'{}' has {} rows", path, rows)`.
/// Values are strings and integers; format others with show_number().
template <class... Values>
std::string text(detail::TextFormat<std::type_identity_t<Values>...> format,
                 const Values&... values) {
  const std::tuple<decltype(detail::text_value(values))...> held(detail::text_value(values)...);
  return std::apply(
      [&](const auto&... each) {
        const std::array<std::string_view, sizeof...(Values) + 1> views = {each...};
        return detail::fill_text(format.format, views.data());
      },
      held);
}

/// "'a'"
inline std::string single_quoted(std::string_view item) {
  return std::string("'").append(item).append("'");
}

/// The items, each converted by `to_text`, with `separator` between them.
template <class Items, class ToText = std::identity>
std::string joined(const Items& items, std::string_view separator = ", ",
                   const ToText& to_text = {}) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += separator;
    out += std::invoke(to_text, item);
    first = false;
  }
  return out;
}

/// "'a', 'b'"
template <class Items>
std::string quoted_list(const Items& items) {
  return joined(items, ", ", [](const auto& item) { return single_quoted(item); });
}

/// ASCII capitals in lower case; other bytes are kept.
std::string ascii_lower(std::string_view text);

/// Without blanks, tabs and line ends at both ends.
std::string trimmed(std::string_view text);

/// Two lower-case hex digits per byte.
std::string hex_digits(std::span<const unsigned char> bytes);

}  // namespace accel
