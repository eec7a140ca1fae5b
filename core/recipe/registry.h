// Register<T>, the last line of every component's file, and components as options of others.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/recipe/catalog.h"
#include "core/recipe/schema.h"

namespace accel {

/// A link in this binary's list of components. The list is constant-initialised and changed by
/// these constructors only, so that a plugin can be loaded and its ABI checked before its code sees
/// any object of the host.
class Registration {
 public:
  using Enter = void (*)(Registry&);
  explicit Registration(Enter enter) : enter_(enter), next_(chain_) { chain_ = this; }
  /// Registers all components of this binary.
  static void enter_all(Registry& registry) {
    for (const Registration* r = chain_; r; r = r->next_) r->enter_(registry);
  }

 private:
  Enter enter_;
  const Registration* next_;
  static constinit inline const Registration* chain_ __attribute__((visibility("hidden"))) =
      nullptr;
};

namespace detail {
/// The kind whose interface T implements.
template <class T, class... Bases>
auto base_of(std::tuple<Catalog<Bases>...>*) {
  using Found = decltype(std::tuple_cat(
      std::conditional_t<std::is_base_of_v<Bases, T>, std::tuple<std::type_identity<Bases>>,
                         std::tuple<>>{}...));
  static_assert(std::tuple_size_v<Found> == 1, "a component implements exactly one kind");
  return typename std::tuple_element_t<0, Found>{};
}

/// `{type: NAME, ...options}`: the resolved form of a component.
Node with_type(const std::string& name, Node options, const Node& given);
/// The options beside `type`; none for a bare name.
Node without_type(const Node& given);

template <class T>
ComponentInfo info_of() {
  ComponentInfo info = {T::kName, T::kSummary, T::schema().info()};
  if constexpr (requires { T::kRenamedFrom; }) info.renamed_from = T::kRenamedFrom;
  if constexpr (requires { T::kHintFor; }) {
    info.hint_for = {std::begin(T::kHintFor), std::end(T::kHintFor)};
  }
  return info;
}
}  // namespace detail

/// Registers component `T` in its kind's catalogue under T::kName.
///
/// T has kName, kSummary, a static schema() and a constructor from (options) or
/// (options, context of its kind). Optional: kRenamedFrom, its deprecated name, and kHintFor, an
/// array of the names other trainers use for it.
template <class T>
class Register : Registration {
  // Ends the compiler's output at the cause: std::make_unique<T> would add its instantiations.
  static_assert(!std::is_abstract_v<T>,
                "a component overrides every pure virtual function of its interface: compare the "
                "signatures with those of the header in core/api");

 public:
  Register() : Registration(&enter) {}

 private:
  using Base = typename decltype(detail::base_of<T>(
      static_cast<decltype(Registry::catalogs)*>(nullptr)))::type;
  using Options = typename decltype(T::schema())::Options;
  using Context = typename Kind<Base>::Context;

  static void enter(Registry& registry) { registry.of<Base>().add(detail::info_of<T>(), &prepare); }

  static Ref<Base> prepare(const Node& node, Reading& reading) {
    const auto schema = T::schema();
    const size_t before = reading.problems.size();
    Options options = schema.read(detail::without_type(node), reading);
    if (reading.problems.size() != before) return {};
    return {T::kName, detail::with_type(T::kName, schema.write(options, &node), node),
            [options](const Context& context) -> std::unique_ptr<Base> {
              if constexpr (std::is_abstract_v<T>) {
                return nullptr;
              } else if constexpr (std::is_constructible_v<T, const Options&, const Context&>) {
                return std::make_unique<T>(options, context);
              } else {
                return std::make_unique<T>(options);
              }
            }};
  }
};

/// A component inside another section: `{type: NAME, ...}` or just the name.
template <class Base>
struct Codec<Ref<Base>> {
  static std::string name() {
    const std::string kind = Kind<Base>::kName;
    return (kind.find_first_of("aeiou") == 0 ? "an " : "a ") + kind;
  }
  static std::string kind() { return Kind<Base>::kName; }
  static std::string json() {
    return std::string("\"$ref\": \"#/$defs/") + Kind<Base>::kName + "\"";
  }
  static std::optional<Ref<Base>> read(const Node& node, const std::string&, Reading& reading) {
    Ref<Base> ref = reading.registry.of<Base>().prepare(node, reading);
    if (!ref) return std::nullopt;
    return ref;
  }
  static Node write(const Ref<Base>& ref) { return ref.resolved; }
};

/// A list of components of one kind. A single one is a list of one.
template <class Base>
struct Codec<std::vector<Ref<Base>>> {
  static std::string name() { return std::string("a list of ") + Kind<Base>::kName + "s"; }
  static std::string kind() { return Kind<Base>::kName; }
  static std::string json() { return detail::one_or_list(Codec<Ref<Base>>::json()); }
  static std::optional<std::vector<Ref<Base>>> read(const Node& node, const std::string&,
                                                    Reading& reading) {
    std::vector<Ref<Base>> out;
    if (node.null()) return out;
    const Node::List one = {node};
    bool good = true;
    for (const Node& item : node.list() ? *node.list() : one) {
      Ref<Base> ref = reading.registry.of<Base>().prepare(item, reading);
      good = good && ref;
      if (ref) out.push_back(std::move(ref));
    }
    return good ? std::optional(std::move(out)) : std::nullopt;
  }
  static Node write(const std::vector<Ref<Base>>& refs) {
    Node::List list;
    for (const Ref<Base>& ref : refs) list.push_back(ref.resolved);
    return {std::move(list), {}};
  }
};

}  // namespace accel
