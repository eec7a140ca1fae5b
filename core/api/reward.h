// Reward functions: scores of completions that a task samples.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/api/prompt_rows.h"
#include "core/recipe/registry.h"

namespace accel {

/// A sampled completion with its prompt. The references are valid during the call.
struct ScoredCompletion {
  const PromptRow& row;
  const std::string& text;  ///< without special tokens
  std::span<const int64_t> prompt_tokens;
  std::span<const int64_t> tokens;  ///< of the completion, with its end token
  bool is_truncated = false;        ///< ended by the length limit, without an end token
};

struct RewardContext {
  DataShape data;
};

/// Implementations live in train/rewards/ or in a plugin.
class RewardFunction {
 public:
  virtual ~RewardFunction() = default;

  /// One reward per completion; nullopt where it does not apply, which leaves it out of the sum and
  /// of the means. Called without autograd, on every rank for its own completions. Must depend on
  /// the arguments alone, so that resumed runs repeat. Throws DataError.
  virtual std::vector<std::optional<double>> score(
      std::span<const ScoredCompletion> completions) = 0;
  /// Columns that the rows of the data need.
  virtual std::vector<std::string> columns() const { return {}; }
  /// A frozen model that it evaluates, moved to the device and put into eval mode by the task.
  virtual Model* model() { return nullptr; }
};

template <>
struct Kind<RewardFunction> {
  static constexpr auto kName = "reward";
  using Context = RewardContext;
};

/// The reward functions of this process, the same for all registries. A plugin's may be described
/// before the plugin is loaded, which replaces the description.
template <>
class Catalog<RewardFunction> : public CatalogIndex {
 public:
  using Prepare = std::function<Ref<RewardFunction>(const Node&, Reading&)>;

  Catalog() : CatalogIndex(Kind<RewardFunction>::kName) {}
  /// Throws std::logic_error for a second function of one name, unless it is a plugin's.
  void add(ComponentInfo info, Prepare prepare);
  /// As that of other kinds.
  Ref<RewardFunction> prepare(const Node& node, Reading& reading) const;

 private:
  std::map<std::string, Prepare> prepare_;
};

Catalog<RewardFunction>& reward_catalog();

template <>
inline Catalog<RewardFunction>& Registry::of<RewardFunction>() {
  return reward_catalog();
}
template <>
inline const Catalog<RewardFunction>& Registry::of<RewardFunction>() const {
  return reward_catalog();
}

/// Registers a reward function, as any component.
template <class T>
requires std::is_base_of_v<RewardFunction, T>
class Register<T> : Registration {
  static_assert(!std::is_abstract_v<T>,
                "a component overrides every pure virtual function of its interface: compare the "
                "signatures with those of the header in core/api");

 public:
  Register() : Registration(&enter) {}

 private:
  using Options = typename decltype(T::schema())::Options;

  /// Registries are entered more than once; the catalogue has each component once.
  static void enter(Registry& registry) {
    static const bool entered = [&] {
      registry.of<RewardFunction>().add(detail::info_of<T>(), &prepare);
      return true;
    }();
    static_cast<void>(entered);
  }

  static Ref<RewardFunction> prepare(const Node& node, Reading& reading) {
    const auto schema = T::schema();
    const size_t before = reading.problems.size();
    Options options = schema.read(detail::without_type(node), reading);
    if (reading.problems.size() != before) return {};
    return {T::kName, detail::with_type(T::kName, schema.write(options, &node), node),
            [options](const RewardContext& context) -> std::unique_ptr<RewardFunction> {
              if constexpr (std::is_constructible_v<T, const Options&, const RewardContext&>) {
                return std::make_unique<T>(options, context);
              } else {
                return std::make_unique<T>(options);
              }
            }};
  }
};

}  // namespace accel
