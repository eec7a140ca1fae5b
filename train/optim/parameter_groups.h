// The `groups` option of every optimizer: parameter groups by name pattern, with their options.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/api/optimizer.h"
#include "core/recipe/registry.h"

namespace accel {

/// One entry of `groups`, as written.
struct GroupOverride {
  std::vector<Node> match;  ///< patterns of names
  Node changes;             ///< the options that override the optimizer's
  Node written;             ///< both, for the resolved recipe
};

/// The `groups` of an optimizer whose options are `Options`. An entry may change every option that
/// Options::hyper_schema() declares.
template <class Options>
struct ParameterGroups {
  std::vector<GroupOverride> list;
};

namespace detail {
/// Reports errors in an entry's options to the Reading.
using CheckGroup = std::function<void(const Node& changes, Reading& reading)>;

std::optional<std::vector<GroupOverride>> read_groups(const Node& node, const std::string& name,
                                                      Reading& reading, const CheckGroup& check);
Node write_groups(const std::vector<GroupOverride>& groups);
std::string groups_json(const std::vector<FieldInfo>& options);

/// The parameters of each entry in the recipe's order, then the unmatched ones, if any. The first
/// match wins. Throws RecipeError for a pattern without match and an entry without parameters.
std::vector<std::vector<Parameter>> split_parameters(const std::vector<Parameter>& parameters,
                                                     const std::vector<GroupOverride>& groups);
}  // namespace detail

template <class Options>
struct Codec<ParameterGroups<Options>> {
  static std::string name() { return "a list of parameter groups"; }
  static std::string json() { return detail::groups_json(Options::hyper_schema().info()); }
  static std::optional<ParameterGroups<Options>> read(const Node& node, const std::string& name,
                                                      Reading& reading) {
    const auto check = [](const Node& changes, Reading& into) {
      Options::hyper_schema().read(changes, into);
    };
    auto list = detail::read_groups(node, name, reading, check);
    if (!list) return std::nullopt;
    return ParameterGroups<Options>{std::move(*list)};
  }
  static Node write(const ParameterGroups<Options>& groups) {
    return detail::write_groups(groups.list);
  }
};

/// The options of one group: the optimizer's, overridden by the entry's.
template <class Options>
Options with_changes(const Options& options, const GroupOverride& group) {
  const Registry no_components;
  Diagnostics problems;
  Reading reading{problems, no_components};
  Options changed = Options::hyper_schema().read(group.changes, reading, options);
  problems.check();
  return changed;
}

/// A factor of at most 1.
inline Rule<double> layer_decay_factor() {
  return {[](double v) { return 0 < v && v <= 1; }, "in (0, 1]",
          "\"exclusiveMinimum\": 0, \"maximum\": 1"};
}

/// An optimizer's complete schema: its options, `groups` and `layer_decay`.
template <class Options>
Schema<Options> with_groups(Schema<Options> hyper) {
  return std::move(hyper)
      .field(
          "groups", &Options::groups,
          "Parameter groups with other options. Each entry has `match`, one or more patterns of "
          "parameter names such as '*.bias', and any of the options above. The first match wins.")
      .field("layer_decay", &Options::layer_decay,
             "Learning rate of each layer relative to the one above, from the head (1) down to the "
             "embeddings. Below 1 it preserves pretrained lower layers.",
             layer_decay_factor());
}

}  // namespace accel
