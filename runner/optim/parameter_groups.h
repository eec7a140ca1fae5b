// The `groups` option of every optimizer: parameters picked by name, with options of their own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/optimizer.h"
#include "core/registry.h"

namespace accel {

/// One entry of `groups`, as written.
struct GroupOverride {
  std::vector<Node> match;  ///< patterns of names
  Node changes;             ///< the options that differ from the optimizer's own
  Node written;             ///< both, for the resolved recipe
};

/// The `groups` of an optimizer whose options are `Options`. An entry may change every option that
/// Options::hyper_schema() declares.
template <class Options>
struct ParameterGroups {
  std::vector<GroupOverride> list;
};

namespace detail {
/// Reports what is wrong with an entry's options to the Reading.
using CheckGroup = std::function<void(const Node& changes, Reading& reading)>;

std::optional<std::vector<GroupOverride>> read_groups(const Node& node, const std::string& name,
                                                      Reading& reading, const CheckGroup& check);
Node write_groups(const std::vector<GroupOverride>& groups);
std::string groups_json(const std::vector<FieldInfo>& options);

/// The parameters of each override in the recipe's order, then those that none matched (not there
/// when all are taken). The first match wins. Throws RecipeError for a pattern that matches nothing
/// and for an entry that gets no parameter.
std::vector<std::vector<NamedTensor>> split_parameters(const std::vector<NamedTensor>& parameters,
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

/// The options of one group: the optimizer's own, with the entry's changes on top.
template <class Options>
Options with_changes(const Options& options, const GroupOverride& group) {
  const Registry no_components;
  Diagnostics problems;
  Reading reading{problems, no_components};
  Options changed = Options::hyper_schema().read(group.changes, reading, options);
  problems.check();
  return changed;
}

/// A factor that makes nothing larger.
inline Rule<double> layer_decay_factor() {
  return {[](double v) { return 0 < v && v <= 1; }, "in (0, 1]",
          "\"exclusiveMinimum\": 0, \"maximum\": 1"};
}

/// Adds `groups` and `layer_decay` to an optimizer's own options: its complete schema.
template <class Options>
Schema<Options> with_groups(Schema<Options> hyper) {
  return std::move(hyper)
      .field(
          "groups", &Options::groups,
          "Parameters with options of their own. Each entry has `match`, one or more patterns of "
          "parameter names such as '*.bias', and any of the options above. The first match wins.")
      .field("layer_decay", &Options::layer_decay,
             "Learning rate of each layer relative to the one above; embeddings come lowest, the "
             "head has the full rate.",
             layer_decay_factor());
}

}  // namespace accel
