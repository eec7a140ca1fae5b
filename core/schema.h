// The one declaration of a component's options. From it come parsing, validation, the reference
// docs, the JSON Schema and the resolved recipe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/codec.h"
#include "core/rules.h"

namespace accel {

/// What a changed value means for a run that is resumed.
enum class Change {
  kFree,        ///< logging, saving, stopping: applied without a word
  kConsent,     ///< other numbers from here on: needs `--allow KEY`
  kImpossible,  ///< the saved state does not fit
};

/// What can be said of one option without knowing its struct.
struct FieldInfo {
  std::string name;
  std::string type;      ///< "a whole number"
  std::string fallback;  ///< the default as a recipe would write it
  std::string help;
  std::string rule;       ///< "at least 1", or ""
  std::string json;       ///< JSON Schema keywords without the braces
  std::string kind = {};  ///< the component kind for a component option, else ""
  bool required = false;
  Change change = Change::kConsent;
  bool handled = false;  ///< consumed before the section is read
  /// Of a nested section; for a component, the keys written beside its own.
  std::vector<FieldInfo> fields = {};
};

/// Schemas are cheap values: a component's static schema() builds one per call.
template <class T>
class Schema {
 public:
  using Options = T;

  /// Declares the option `name`. Its default is the member's initialiser.
  template <class M>
  Schema field(std::string name, M T::*member, std::string help, Rule<M> rule = {}) &&;

  /// Declares a key that is consumed before this section is read: known and documented, no more.
  Schema handled(std::string name, std::string type, std::string help) &&;

  /// The last declared option has no default.
  Schema required() && {
    return last([](FieldInfo& info) { info.required = true; });
  }
  /// What changing the last declared option means on resume. Default: Change::kConsent.
  Schema on_resume(Change change) && {
    return last([change](FieldInfo& info) { info.change = change; });
  }
  /// A rule over several options, run when each was read without a problem.
  Schema check(std::function<void(const T&, const Node&, Reading&)> rule) && {
    checks_.push_back(std::move(rule));
    return std::move(*this);
  }

  /// Reads a section over `out`'s values; the key `type` is the caller's. Reports to `reading`.
  T read(const Node& node, Reading& reading, T out = {}) const;

  /// The section with every option filled in; places come from `given` where it has the key.
  Node write(const T& options, const Node* given = nullptr) const;

  std::vector<FieldInfo> info() const;

 private:
  struct Field {
    FieldInfo info;
    std::function<void(T&, const Node&, Reading&)> read;
    std::function<Node(const T&)> write;
  };

  template <class Edit>
  Schema last(Edit edit) {
    edit(fields_.back().info);
    return std::move(*this);
  }

  std::vector<Field> fields_;
  std::vector<std::function<void(const T&, const Node&, Reading&)>> checks_;
};

/// The parts of Schema that need no type: unknown keys, missing keys, merging of places.
namespace detail {
void check_keys(const Node& node, const std::vector<FieldInfo>& fields, Reading& reading);
Node with_places(Node written, const Node* given);
/// A default as one line of text: "[128]", "none", "'a text'".
std::string inline_text(const Node& node);
}  // namespace detail

/// A section: any struct with a static schema() can be an option of another.
template <class S>
requires requires {
  typename decltype(S::schema())::Options;
} && std::same_as<typename decltype(S::schema())::Options, S>
struct Codec<S> {
  static std::string name() { return "a section"; }
  static std::string json() { return "\"type\": \"object\""; }
  static std::optional<S> read(const Node& node, const std::string& name, Reading& reading) {
    if (!node.map() && !node.null()) {
      reading.wrong_type(node, name, Codec::name());
      return std::nullopt;
    }
    const size_t before = reading.problems.size();
    S out = S::schema().read(node, reading);
    return reading.problems.size() == before ? std::optional(std::move(out)) : std::nullopt;
  }
  static Node write(const S& value) { return S::schema().write(value); }
};

template <class T>
template <class M>
Schema<T> Schema<T>::field(std::string name, M T::*member, std::string help, Rule<M> rule) && {
  Field f;
  f.info.name = name;
  f.info.type = Codec<M>::name();
  f.info.fallback = detail::inline_text(Codec<M>::write(T{}.*member));
  f.info.help = std::move(help);
  f.info.rule = rule.words;
  f.info.json = Codec<M>::json();
  if (!rule.json.empty()) f.info.json += (f.info.json.empty() ? "" : ", ") + rule.json;
  if constexpr (requires { M::schema().info(); }) f.info.fields = M::schema().info();
  if constexpr (requires { Codec<M>::kind(); }) f.info.kind = Codec<M>::kind();
  if constexpr (requires { Codec<M>::extra_fields(); }) f.info.fields = Codec<M>::extra_fields();
  f.read = [member, name, rule](T& out, const Node& node, Reading& reading) {
    std::optional<M> value = Codec<M>::read(node, name, reading);
    if (!value) return;
    if (rule.holds && !rule.holds(*value)) {
      const size_t item = rule.culprit ? rule.culprit(*value) : 0;
      const bool listed = rule.culprit && node.list() && item < node.list()->size();
      reading.problems.error((listed ? (*node.list())[item] : node).where,
                             "'" + name + "' must be " + rule.words + ", not " +
                                 detail::inline_text(Codec<M>::write(*value)));
      return;
    }
    out.*member = std::move(*value);
  };
  f.write = [member](const T& options) { return Codec<M>::write(options.*member); };
  fields_.push_back(std::move(f));
  return std::move(*this);
}

template <class T>
Schema<T> Schema<T>::handled(std::string name, std::string type, std::string help) && {
  Field f;
  f.info.name = std::move(name);
  f.info.type = std::move(type);
  f.info.help = std::move(help);
  f.info.handled = true;
  fields_.push_back(std::move(f));
  return std::move(*this);
}

template <class T>
T Schema<T>::read(const Node& node, Reading& reading, T out) const {
  const size_t before = reading.problems.size();
  detail::check_keys(node, info(), reading);
  for (const Field& field : fields_) {
    const Node::Entry* entry = node.find(field.info.name);
    if (entry && field.read) field.read(out, entry->node, reading);
  }
  if (reading.problems.size() == before) {
    for (const auto& check : checks_) check(out, node, reading);
  }
  return out;
}

template <class T>
Node Schema<T>::write(const T& options, const Node* given) const {
  Node::Map map;
  for (const Field& field : fields_) {
    if (field.write) map.push_back({field.info.name, {}, field.write(options)});
  }
  return detail::with_places({std::move(map), {}}, given);
}

template <class T>
std::vector<FieldInfo> Schema<T>::info() const {
  std::vector<FieldInfo> all;
  for (const Field& field : fields_) all.push_back(field.info);
  return all;
}

}  // namespace accel
