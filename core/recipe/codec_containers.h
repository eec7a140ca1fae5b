// Codecs of composed types: lists, maps, optionals, `auto`, enums and sections.
// Included by core/recipe/codec.h; never include it alone.
#pragma once

#include "core/base/text.h"
#include "core/recipe/codec.h"

namespace accel {

namespace detail {
/// JSON Schema of one value or a list of them.
std::string one_or_list(const std::string& one);
/// JSON Schema of a map from any key to such values.
std::string map_of(const std::string& one);
/// JSON Schema of a value or a keyword: `"const": "auto"`.
std::string value_or(const std::string& one, const std::string& words);
/// "a number or 'auto'"
std::string or_word(const std::string& name, const std::string& word);
}  // namespace detail

/// One value or a list of them. A single value is a list of one.
template <class T>
struct Codec<std::vector<T>> {
  static std::string name() { return "a list"; }
  static std::string json() { return detail::one_or_list(Codec<T>::json()); }
  static std::string kind() requires requires { Codec<T>::kind(); }
  { return Codec<T>::kind(); }
  static auto extra_fields() requires requires { Codec<T>::extra_fields(); }
  { return Codec<T>::extra_fields(); }
  static std::optional<std::vector<T>> read(const Node& node, const std::string& name,
                                            Reading& reading) {
    std::vector<T> out;
    if (node.null()) return out;
    if (!node.list()) {
      std::optional<T> one = Codec<T>::read(node, name, reading);
      if (!one) return std::nullopt;
      out.push_back(std::move(*one));
      return out;
    }
    bool good = true;
    for (const Node& item : *node.list()) {
      std::optional<T> value = Codec<T>::read(item, name, reading);
      if (value) {
        out.push_back(std::move(*value));
      } else {
        good = false;  // read on: all bad items are reported
      }
    }
    return good ? std::optional(std::move(out)) : std::nullopt;
  }
  static Node write(const std::vector<T>& values) {
    Node::List list;
    for (const T& value : values) list.push_back(Codec<T>::write(value));
    return {std::move(list), {}};
  }
};

/// One duration or a list, of which the first to elapse counts.
template <>
struct Codec<Durations> {
  static std::string name() { return "a duration, a list of them, or 'never'"; }
  static std::string json() { return "\"type\": [\"string\", \"integer\", \"array\"]"; }
  static std::optional<Durations> read(const Node& node, const std::string& name, Reading& reading);
  static Node write(const Durations& values);
};

template <class T>
struct Codec<std::map<std::string, T>> {
  static std::string name() { return "a section"; }
  static std::string json() { return detail::map_of(Codec<T>::json()); }
  static std::optional<std::map<std::string, T>> read(const Node& node, const std::string& name,
                                                      Reading& reading) {
    std::map<std::string, T> out;
    if (node.null()) return out;
    if (!node.map()) {
      reading.wrong_type(node, name, Codec::name());
      return std::nullopt;
    }
    bool good = true;
    for (const Node::Entry& entry : *node.map()) {
      std::optional<T> value = Codec<T>::read(entry.node, entry.key, reading);
      good = good && value;
      if (value) out.emplace(entry.key, std::move(*value));
    }
    return good ? std::optional(std::move(out)) : std::nullopt;
  }
  static Node write(const std::map<std::string, T>& values) {
    Node::Map map;
    for (const auto& [key, value] : values) map.push_back({key, {}, Codec<T>::write(value)});
    return {std::move(map), {}};
  }
};

/// Null, `none` or a value.
template <class T>
struct Codec<std::optional<T>> {
  static std::string name() { return detail::or_word(Codec<T>::name(), "none"); }
  static std::string json() {
    return detail::value_or(Codec<T>::json(), "\"enum\": [\"none\", null]");
  }
  static std::optional<std::optional<T>> read(const Node& node, const std::string& name,
                                              Reading& reading) {
    if (node.null() || (node.scalar() && node.scalar()->text == "none")) {
      return std::optional<std::optional<T>>(std::in_place, std::nullopt);
    }
    reading.other_word = {&node, "none"};
    std::optional<T> value = Codec<T>::read(node, name, reading);
    reading.other_word = {};
    if (!value) return std::nullopt;
    return std::optional<std::optional<T>>(std::in_place, std::move(value));
  }
  static Node write(const std::optional<T>& value) {
    return value ? Codec<T>::write(*value) : scalar_node("none");
  }
};

template <class T>
struct Codec<Auto<T>> {
  static std::string name() { return detail::or_word(Codec<T>::name(), "auto"); }
  static std::string json() { return detail::value_or(Codec<T>::json(), "\"const\": \"auto\""); }
  static std::optional<Auto<T>> read(const Node& node, const std::string& name, Reading& reading) {
    if (node.scalar() && node.scalar()->text == "auto") return Auto<T>{};
    reading.other_word = {&node, "auto"};
    std::optional<T> value = Codec<T>::read(node, name, reading);
    reading.other_word = {};
    if (!value) return std::nullopt;
    return Auto<T>{std::move(value)};
  }
  static Node write(const Auto<T>& value) {
    return value ? Codec<T>::write(*value) : scalar_node("auto");
  }
};

template <class E>
requires requires {
  EnumNames<E>::kValues;
}
struct Codec<E> {
  static std::string name() { return "one of " + joined(EnumNames<E>::kValues, ", ", &text_of); }
  static std::string json() {
    const auto quoted_text = [](const Value& value) { return '"' + text_of(value) + '"'; };
    return "\"enum\": [" + joined(EnumNames<E>::kValues, ", ", quoted_text) + "]";
  }
  static std::optional<E> read(const Node& node, const std::string& name, Reading& reading) {
    std::string hint;
    if (const Scalar* scalar = node.scalar()) {
      std::vector<std::string> names;
      for (const auto& [value, text] : EnumNames<E>::kValues) {
        if (scalar->text == text) return value;
        names.push_back(text);
      }
      hint = did_you_mean(scalar->text, names);
    }
    reading.wrong_type(node, name, Codec::name(), hint);
    return std::nullopt;
  }
  static Node write(E wanted) {
    for (const auto& [value, text] : EnumNames<E>::kValues) {
      if (value == wanted) return scalar_node(text);
    }
    return scalar_node("?");
  }

 private:
  using Value = std::pair<E, const char*>;
  static std::string text_of(const Value& value) { return value.second; }
};

}  // namespace accel
