// Rules of option values: predicate, description and JSON Schema.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "core/recipe/codec.h"

namespace accel {

template <class T>
struct Rule {
  std::function<bool(const T&)> holds;
  std::string words;  ///< completes "must be ..."
  std::string json;   ///< JSON Schema keywords: "\"minimum\": 1"
  /// Index of the first invalid item, for rules about the items of a list.
  std::function<size_t(const T&)> culprit = nullptr;
};

namespace detail {
template <class T>
std::string number_text(T value) {
  return Codec<T>::write(value).scalar()->text;
}
}  // namespace detail

/// value >= low
template <class T>
Rule<T> at_least(T low) {
  return {[low](const T& v) { return v >= low; }, "at least " + detail::number_text(low),
          "\"minimum\": " + detail::number_text(low)};
}

/// value > low
template <class T>
Rule<T> more_than(T low) {
  return {[low](const T& v) { return v > low; }, "more than " + detail::number_text(low),
          "\"exclusiveMinimum\": " + detail::number_text(low)};
}

/// low <= value < high
template <class T>
Rule<T> within(T low, T high) {
  const std::string a = detail::number_text(low), b = detail::number_text(high);
  return {[=](const T& v) { return low <= v && v < high; }, "in [" + a + ", " + b + ")",
          "\"minimum\": " + a + ", \"exclusiveMaximum\": " + b};
}

/// low <= value <= high
template <class T>
Rule<T> between(T low, T high) {
  const std::string a = detail::number_text(low), b = detail::number_text(high);
  return {[=](const T& v) { return low <= v && v <= high; }, "between " + a + " and " + b,
          "\"minimum\": " + a + ", \"maximum\": " + b};
}

/// One of a set of texts or numbers.
template <class T>
Rule<T> one_of(std::vector<T> values) {
  const auto word = [](const T& v) { return Codec<T>::write(v).scalar()->text; };
  const auto json_value = [](const T& v) {
    const Node node = Codec<T>::write(v);
    const std::string& text = node.scalar()->text;
    return node.scalar()->quoted ? "\"" + text + "\"" : text;
  };
  const std::string words = joined(values, ", ", word), json = joined(values, ", ", json_value);
  return {[values](const T& v) {
            for (const T& value : values) {
              if (value == v) return true;
            }
            return false;
          },
          "one of " + words, "\"enum\": [" + json + "]"};
}

/// A list whose items obey `rule`.
template <class T>
Rule<std::vector<T>> each(Rule<T> rule) {
  const auto first_bad = [rule](const std::vector<T>& list) {
    size_t i = 0;
    while (i < list.size() && rule.holds(list[i])) ++i;
    return i;
  };
  return {[first_bad](const std::vector<T>& list) { return first_bad(list) == list.size(); },
          "a list of values " + rule.words, "", first_bad};
}

/// `auto` or `none`, or a value that obeys `rule`.
template <template <class> class Maybe, class T>
Rule<Maybe<T>> if_given(Rule<T> rule) {
  return {[rule](const Maybe<T>& v) { return !v || rule.holds(*v); }, rule.words, ""};
}

}  // namespace accel
