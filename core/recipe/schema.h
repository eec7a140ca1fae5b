// Schema: the declaration of a component's options, from which parsing, validation, reference docs,
// JSON Schema and resolved recipes follow.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/rules.h"
#include "core/recipe/schema_fields.h"

namespace accel {

namespace detail {

template <class M>
struct OptionTypeOf {
  static FieldInfo describe();
  static Node write(const void* value) { return Codec<M>::write(*static_cast<const M*>(value)); }
  static void read(void* out, const void* rule, const Node& node, const std::string& name,
                   Reading& reading);
  static constexpr OptionType kType = {&describe, &write, &read};
};

template <class M>
std::shared_ptr<const void> shared_rule(const Rule<M>& rule) {
  if (!rule.holds) return nullptr;
  return std::make_shared<const Rule<M>>(rule);
}

}  // namespace detail

/// A cheap value: a component's static schema() builds one per call.
template <class T>
class Schema {
 public:
  using Options = T;

  /// Declares the option `name`. Its default is the member's initialiser: also for the options that
  /// a section given in part leaves out.
  template <class M>
  Schema&& field(std::string_view name, M T::*member, std::string_view help) && {
    add(member, {name, help}, nullptr);
    return std::move(*this);
  }
  template <class M>
  Schema&& field(std::string_view name, M T::*member, std::string_view help,
                 const Rule<M>& rule) && {
    add(member, {name, help, rule.words, rule.json}, detail::shared_rule(rule));
    return std::move(*this);
  }

  /// Declares a key that is consumed before this section is read: accepted and documented only.
  Schema&& handled(std::string_view name, std::string_view type, std::string_view help) && {
    fields_.add_handled(name, type, help);
    return std::move(*this);
  }

  /// The last declared option has no default.
  Schema&& required() && {
    fields_.last().required = true;
    return std::move(*this);
  }
  /// Effect of changing the last declared option on resume. Default: Change::kConsent.
  Schema&& on_resume(Change change) && {
    fields_.last().change = change;
    return std::move(*this);
  }
  /// The deprecated name of the last declared option: accepted, with a warning.
  Schema&& renamed_from(std::string_view old_name) && {
    fields_.last().renamed_from = old_name;
    return std::move(*this);
  }
  /// Names of other trainers for the last declared option: refused, with the hint to write `value`,
  /// in which `{}` is the given value.
  Schema&& hint_for(std::initializer_list<std::string_view> names,
                    std::string_view value = "{}") && {
    for (const std::string_view name : names) fields_.add_hint(name, value);
    return std::move(*this);
  }
  Schema&& hint_for(const std::vector<std::string>& names, std::string_view value = "{}") && {
    for (const std::string& name : names) fields_.add_hint(name, value);
    return std::move(*this);
  }
  /// A rule over several options, checked when each is valid.
  Schema&& check(std::function<void(const T&, const Node&, Reading&)> rule) && {
    checks_.push_back(std::move(rule));
    return std::move(*this);
  }

  /// Reads a section over `out`'s values; the key `type` is the caller's. Reports to `reading`.
  T read(const Node& node, Reading& reading, T out = {}) const {
    const size_t before = reading.problems.size();
    const Node given = fields_.with_current_names(node, reading);
    fields_.read(given, &out, reading);
    if (reading.problems.size() == before) {
      for (const auto& check : checks_) check(out, given, reading);
    }
    return out;
  }

  /// The section with all options; positions come from `given` where it has the key.
  Node write(const T& options, const Node* given = nullptr) const {
    return fields_.write(&options, given);
  }

  std::vector<FieldInfo> info() const { return fields_.info(); }

 private:
  template <class M>
  void add(M T::*member, const detail::OptionText& text, const std::shared_ptr<const void>& rule) {
    const M& fallback = defaults_.*member;
    const size_t offset = static_cast<size_t>(reinterpret_cast<const char*>(&fallback) -
                                              reinterpret_cast<const char*>(&defaults_));
    fields_.add(detail::OptionTypeOf<M>::kType, text, offset, &fallback, rule);
  }

  T defaults_{};
  detail::SchemaFields fields_;
  std::vector<std::function<void(const T&, const Node&, Reading&)>> checks_;
};

/// A section: any struct with a static schema() can be an option of another.
template <class S>
concept Section = std::same_as<typename decltype(S::schema())::Options, S>;

template <Section S>
struct Codec<S> {
  static std::string name() { return "a section"; }
  static std::string json() { return "\"type\": \"object\""; }
  /// `defaults`: of the options that the section leaves out.
  static std::optional<S> read(const Node& node, const std::string& name, Reading& reading,
                               S defaults = {}) {
    if (!node.map() && !node.null()) {
      reading.wrong_type(node, name, Codec::name(),
                         detail::wrong_section_hint(node, name, S::schema().info(), reading));
      return std::nullopt;
    }
    const size_t before = reading.problems.size();
    S out = S::schema().read(node, reading, std::move(defaults));
    return reading.problems.size() == before ? std::optional(std::move(out)) : std::nullopt;
  }
  static Node write(const S& value) { return S::schema().write(value); }
};

namespace detail {

template <class M>
FieldInfo OptionTypeOf<M>::describe() {
  FieldInfo info;
  info.type = Codec<M>::name();
  info.json = Codec<M>::json();
  if constexpr (requires { M::schema().info(); }) info.fields = M::schema().info();
  if constexpr (requires { Codec<M>::kind(); }) info.kind = Codec<M>::kind();
  if constexpr (requires { Codec<M>::extra_fields(); }) info.fields = Codec<M>::extra_fields();
  return info;
}

template <class M>
void OptionTypeOf<M>::read(void* out, const void* erased_rule, const Node& node,
                           const std::string& name, Reading& reading) {
  std::optional<M> value;
  if constexpr (Section<M>) {
    value = Codec<M>::read(node, name, reading, *static_cast<const M*>(out));
  } else {
    value = Codec<M>::read(node, name, reading);
  }
  if (!value) return;
  const auto* rule = static_cast<const Rule<M>*>(erased_rule);
  if (rule && !rule->holds(*value)) {
    const auto item = rule->culprit ? std::optional(rule->culprit(*value)) : std::nullopt;
    report_broken_rule(culprit_of(node, item), name, rule->words, Codec<M>::write(*value), reading);
    return;
  }
  *static_cast<M*>(out) = std::move(*value);
}

}  // namespace detail
}  // namespace accel
