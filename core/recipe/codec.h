// Codecs of option types: read from a recipe, write to it, describe in JSON Schema. Specialise
// Codec for a new type.
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/node.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"
#include "core/recipe/units.h"

namespace accel {

struct FieldInfo;
struct Registry;

/// Context of reading options: the collected problems and the known components.
struct Reading {
  Diagnostics& problems;
  const Registry& registry;
  /// All options of a recipe, for hints on misplaced ones; may be null.
  const std::vector<FieldInfo>* recipe = nullptr;
  /// A keyword that a node accepts besides its codec's values: `auto`, `none`.
  struct {
    const Node* node = nullptr;
    const char* text = nullptr;
  } other_word = {};

  /// Reports "'name' wants <wanted>, not <found>" at the node.
  void wrong_type(const Node& node, const std::string& name, const std::string& wanted,
                  const std::string& hint = {});
};

/// Specialisations provide:
///   static std::string name();   "a whole number"
///   static std::string json();   JSON Schema keywords without the braces: "\"type\": \"integer\""
///   static std::optional<T> read(const Node&, const std::string& name, Reading&);   null: reported
///   static Node write(const T&);
template <class T>
struct Codec;

/// Names for an enum's values. Specialise with
///   static constexpr std::pair<E, const char*> kValues[] = {...};
template <class E>
struct EnumNames;

/// A value the planner may derive: the word `auto`, or the value itself.
template <class T>
struct Auto {
  std::optional<T> value;

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  T value_or(T other) const { return value.value_or(std::move(other)); }
};

/// A path. Relative ones belong to the file that wrote them; an argument's to the working folder.
struct FilePath {
  std::string text;  ///< absolute and lexically normal once read; empty when not given
};

/// A secret text: written back as its `${secret:...}` reference.
struct Secret {
  std::string value;
  std::string reference;
};

namespace detail {
/// Reads a scalar by `parse`; reports errors under the option's name.
template <class T>
std::optional<T> read_scalar(const Node& node, const std::string& name, Reading& reading,
                             Parsed<T> (*parse)(const Scalar&), const std::string& wanted) {
  std::string hint;
  if (const Scalar* scalar = node.scalar()) {
    Parsed<T> parsed = parse(*scalar);
    if (parsed.value) return parsed.value;
    hint = parsed.hint;
  }
  reading.wrong_type(node, name, wanted, hint);
  return std::nullopt;
}
}  // namespace detail

template <>
struct Codec<int64_t> {
  static std::string name() { return "a whole number"; }
  static std::string json() { return "\"type\": \"integer\""; }
  static std::optional<int64_t> read(const Node& node, const std::string& name, Reading& reading) {
    return detail::read_scalar<int64_t>(node, name, reading, &parse_integer, Codec::name());
  }
  static Node write(int64_t value) { return scalar_node(std::to_string(value)); }
};

template <>
struct Codec<double> {
  static std::string name() { return "a number"; }
  static std::string json() { return "\"type\": \"number\""; }
  static std::optional<double> read(const Node& node, const std::string& name, Reading& reading) {
    return detail::read_scalar<double>(node, name, reading, &parse_number, Codec::name());
  }
  static Node write(double value) { return scalar_node(show_number(value)); }
};

template <>
struct Codec<bool> {
  static std::string name() { return "true or false"; }
  static std::string json() { return "\"type\": \"boolean\""; }
  static std::optional<bool> read(const Node& node, const std::string& name, Reading& reading) {
    return detail::read_scalar<bool>(node, name, reading, &parse_switch, Codec::name());
  }
  static Node write(bool value) { return scalar_node(value ? "true" : "false"); }
};

template <>
struct Codec<std::string> {
  static std::string name() { return "a text"; }
  /// Any scalar is accepted as text.
  static std::string json() { return "\"type\": [\"string\", \"number\", \"boolean\"]"; }
  static std::optional<std::string> read(const Node& node, const std::string& name,
                                         Reading& reading);
  static Node write(const std::string& value) { return scalar_node(value, true); }
};

template <>
struct Codec<FilePath> {
  static std::string name() { return "a path"; }
  static std::string json() { return "\"type\": \"string\""; }
  static std::optional<FilePath> read(const Node& node, const std::string& name, Reading& reading);
  static Node write(const FilePath& value) { return scalar_node(value.text, true); }
};

template <>
struct Codec<Secret> {
  static std::string name() { return "a secret"; }
  static std::string json() { return "\"type\": \"string\""; }
  static std::optional<Secret> read(const Node& node, const std::string& name, Reading& reading);
  static Node write(const Secret& value);
};

template <>
struct Codec<Duration> {
  static std::string name() { return "a duration such as '500 steps' or '3 epochs'"; }
  static std::string json() { return "\"type\": [\"string\", \"integer\"]"; }
  static std::optional<Duration> read(const Node& node, const std::string& name, Reading& reading) {
    return detail::read_scalar<Duration>(node, name, reading, &parse_duration, Codec::name());
  }
  static Node write(const Duration& value) { return scalar_node(to_string(value)); }
};

template <>
struct Codec<ByteSize> {
  static std::string name() { return "a size such as '4 GiB'"; }
  static std::string json() { return "\"type\": [\"string\", \"integer\"]"; }
  static std::optional<ByteSize> read(const Node& node, const std::string& name, Reading& reading) {
    return detail::read_scalar<ByteSize>(node, name, reading, &parse_byte_size, Codec::name());
  }
  static Node write(const ByteSize& value) { return scalar_node(to_string(value)); }
};

/// The raw tree, for sections with free keys (`vars`, `smoke`, `x-...`).
template <>
struct Codec<Node> {
  static std::string name() { return "anything"; }
  static std::string json() { return ""; }
  static std::optional<Node> read(const Node& node, const std::string&, Reading&) { return node; }
  static Node write(const Node& value) { return value; }
};

}  // namespace accel

#include "core/recipe/codec_containers.h"  // lists, maps, optionals, enums, sections
