#include "train/optim/parameter_groups.h"

#include "core/recipe/name_pattern.h"

namespace accel {
namespace detail {
namespace {

std::vector<std::string> names_in(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

[[noreturn]] void refuse_pattern(const Node& pattern, const std::vector<Parameter>& parameters) {
  const UnmatchedPattern unmatched = {pattern.scalar()->text, "parameter", names_in(parameters)};
  throw RecipeError({{pattern.where, unmatched.message(), unmatched.hint()}});
}

/// The patterns of an entry; reports errors in them.
std::vector<Node> read_patterns(const Node& entry, Reading& reading) {
  const Node::Entry* match = entry.find("match");
  if (!match) {
    reading.problems.error(entry.where, "'match' is missing",
                           "add 'match': patterns of parameter names, such as '*.bias'");
    return {};
  }
  std::vector<Node> patterns;
  if (match->node.list()) {
    patterns = *match->node.list();
  } else {
    patterns.push_back(match->node);
  }
  for (const Node& pattern : patterns) {
    if (!pattern.scalar()) reading.wrong_type(pattern, "match", "a pattern such as '*.bias'");
  }
  if (patterns.empty()) reading.problems.error(match->node.where, "'match' holds no pattern");
  return patterns;
}

std::optional<GroupOverride> read_group(const Node& entry, Reading& reading,
                                        const CheckGroup& check) {
  if (!entry.map()) {
    reading.wrong_type(entry, "groups", "a section with 'match' and options");
    return std::nullopt;
  }
  const size_t before = reading.problems.size();
  GroupOverride group{read_patterns(entry, reading), {Node::Map{}, entry.where}, entry};
  for (const Node::Entry& option : *entry.map()) {
    if (option.key != "match") group.changes.map()->push_back(option);
  }
  check(group.changes, reading);
  if (reading.problems.size() != before) return std::nullopt;
  return group;
}

}  // namespace

std::optional<std::vector<GroupOverride>> read_groups(const Node& node, const std::string& name,
                                                      Reading& reading, const CheckGroup& check) {
  std::vector<GroupOverride> groups;
  if (node.null()) return groups;
  if (!node.list()) {
    reading.wrong_type(node, name, "a list of parameter groups");
    return std::nullopt;
  }
  const size_t before = reading.problems.size();
  for (const Node& entry : *node.list()) {
    std::optional<GroupOverride> group = read_group(entry, reading, check);
    if (group) groups.push_back(std::move(*group));
  }
  if (reading.problems.size() != before) return std::nullopt;
  return groups;
}

Node write_groups(const std::vector<GroupOverride>& groups) {
  Node::List list;
  for (const GroupOverride& group : groups) list.push_back(group.written);
  return {std::move(list), {}};
}

std::string groups_json(const std::vector<FieldInfo>& options) {
  std::string properties =
      "\"match\": {\"anyOf\": [{\"type\": \"string\"}, "
      "{\"type\": \"array\", \"items\": {\"type\": \"string\"}}]}";
  for (const FieldInfo& option : options) {
    properties += ", \"" + option.name + "\": {" + option.json + "}";
  }
  return "\"type\": \"array\", \"items\": {\"type\": \"object\", \"required\": [\"match\"], "
         "\"additionalProperties\": false, \"properties\": {" +
         properties + "}}";
}

std::vector<std::vector<Parameter>> split_parameters(const std::vector<Parameter>& parameters,
                                                     const std::vector<GroupOverride>& groups) {
  std::vector<std::vector<Parameter>> split;
  std::vector<bool> taken(parameters.size(), false);
  for (const GroupOverride& group : groups) {
    std::vector<Parameter>& members = split.emplace_back();
    for (const Node& pattern : group.match) {
      bool found = false;
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (!name_matches(pattern.scalar()->text, parameters[i].name)) continue;
        found = true;
        if (!taken[i]) members.push_back(parameters[i]);
        taken[i] = true;
      }
      if (!found) refuse_pattern(pattern, parameters);
    }
    if (members.empty()) {
      throw RecipeError(
          {{group.written.where, "every parameter of this group is in an earlier group",
            "put the narrower pattern first"}});
    }
  }
  std::vector<Parameter> rest;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!taken[i]) rest.push_back(parameters[i]);
  }
  if (!rest.empty()) split.push_back(std::move(rest));
  return split;
}

}  // namespace detail
}  // namespace accel
