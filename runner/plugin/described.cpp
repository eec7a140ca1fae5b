#include "runner/plugin/described.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>

#include "core/api/callback.h"
#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/metric.h"
#include "core/api/model.h"
#include "core/api/optimizer.h"
#include "core/api/reward.h"
#include "core/api/schedule.h"
#include "core/api/task.h"
#include "core/api/tracker.h"

namespace accel {
namespace {

using nlohmann::json;

json keywords_of(const FieldInfo& field) {
  return json::parse("{" + field.json + "}", nullptr, /*allow_exceptions=*/false);
}

bool holds(const json& keywords, const std::string& name, double value) {
  const auto found = keywords.find(name);
  if (found == keywords.end() || !found->is_number()) return true;
  const double bound = found->get<double>();
  return name == "minimum"            ? value >= bound
         : name == "maximum"          ? value <= bound
         : name == "exclusiveMinimum" ? value > bound
                                      : value < bound;
}

/// Whether a scalar satisfies the keywords of the rules in core/recipe/rules.h.
bool obeys(const json& keywords, const Scalar& scalar) {
  const auto allowed = keywords.find("enum");
  if (allowed != keywords.end() && allowed->is_array()) {
    return std::any_of(allowed->begin(), allowed->end(), [&](const json& value) {
      return value.is_string() ? value.get<std::string>() == scalar.text
                               : value.dump() == scalar.text;
    });
  }
  const std::optional<double> number = parse_number(scalar).value;
  return !number || (holds(keywords, "minimum", *number) && holds(keywords, "maximum", *number) &&
                     holds(keywords, "exclusiveMinimum", *number) &&
                     holds(keywords, "exclusiveMaximum", *number));
}

/// Reads a value as the described C++ type does. The type's keywords precede the rule's.
template <class T>
bool read_as(const FieldInfo& field, Node& value, Reading& reading, bool& good) {
  const std::string own = Codec<T>::json();
  const bool same = field.type == Codec<T>::name() && field.json.starts_with(own) &&
                    (field.json.size() == own.size() || field.json[own.size()] == ',');
  if (!same) return false;
  const std::optional<T> read = Codec<T>::read(value, field.name, reading);
  good = read.has_value();
  if (read) {
    const Span where = value.where;
    value = Codec<T>::write(*read);
    value.where = where;
  }
  return true;
}

template <class... Types>
bool read_as_one_of(const FieldInfo& field, Node& value, Reading& reading, bool& good) {
  return (read_as<Types>(field, value, reading, good) || ...);
}

/// Readers by type name.
bool read_known_type(const FieldInfo& field, Node& value, Reading& reading, bool& good) {
  const auto read = [&]<class... T>(std::tuple<T...>*) {
    return read_as_one_of<T...>(field, value, reading, good) ||
           read_as_one_of<std::optional<T>...>(field, value, reading, good) ||
           read_as_one_of<Auto<T>...>(field, value, reading, good) ||
           read_as_one_of<std::vector<T>...>(field, value, reading, good) ||
           read_as_one_of<std::map<std::string, T>...>(field, value, reading, good);
  };
  return read(static_cast<std::tuple<int64_t, double, bool, std::string, FilePath, InputPath,
                                     InputFile, Duration, ByteSize>*>(nullptr)) ||
         read_as_one_of<Durations, Secret>(field, value, reading, good);
}

/// An enumerator.
void check_word(const FieldInfo& field, const Node& value, Reading& reading) {
  const json keywords = keywords_of(field);
  const auto allowed = keywords.find("enum");
  if (allowed == keywords.end() || !allowed->is_array()) return;
  std::vector<std::string> names;
  for (const json& each : *allowed) {
    if (each.is_string()) names.push_back(each.get<std::string>());
  }
  const Scalar* scalar = value.scalar();
  if (scalar && std::find(names.begin(), names.end(), scalar->text) != names.end()) return;
  reading.wrong_type(value, field.name, field.type,
                     scalar ? did_you_mean(scalar->text, names) : "");
}

/// Prepares a component of any kind by its name; its resolved form, or the unchanged node on
/// error.
Node resolve_component(const std::string& kind, const Node& node, Reading& reading) {
  Node out = node;
  std::apply(
      [&](const auto&... catalogs) {
        const auto try_one = [&](const auto& catalog) {
          if (catalog.kind() != kind) return;
          if (const auto ref = catalog.prepare(node, reading)) out = ref.resolved;
        };
        (try_one(catalogs), ...);
      },
      reading.registry.catalogs);
  return out;
}

Node resolve(const std::vector<FieldInfo>& fields, const Node& node, Reading& reading);

Node resolve_value(const FieldInfo& field, Node value, Reading& reading) {
  if (!field.kind.empty()) {
    if (!value.list()) return resolve_component(field.kind, value, reading);
    for (Node& item : *value.list()) item = resolve_component(field.kind, item, reading);
    return value;
  }
  if (!field.fields.empty()) {
    if (value.map() || value.null()) return resolve(field.fields, value, reading);
    reading.wrong_type(value, field.name, field.type,
                       detail::wrong_section_hint(value, field.name, field.fields, reading));
    return value;
  }
  bool good = true;
  if (!read_known_type(field, value, reading, good)) {
    check_word(field, value, reading);
    return value;
  }
  const Scalar* scalar = value.scalar();
  if (!good || !scalar || field.rule.empty()) return value;
  if (!obeys(keywords_of(field), *scalar)) {
    detail::report_broken_rule(value, field.name, field.rule, value, reading);
  }
  return value;
}

/// Parses the text of a default.
Node default_of(const FieldInfo& field) {
  const std::string& text = field.fallback;
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') {
    return scalar_node(text.substr(1, text.size() - 2), true);
  }
  if (!text.starts_with('[') && !text.starts_with('{')) return scalar_node(text);
  try {
    Node tree = parse_recipe("default", "value: " + text);
    return tree.find("value")->node;
  } catch (const RecipeError&) {
    return scalar_node(text, true);
  }
}

void forget_places(Node& node) {
  node.where = {};
  if (Node::List* list = node.list()) {
    for (Node& item : *list) forget_places(item);
  }
  if (Node::Map* map = node.map()) {
    for (Node::Entry& entry : *map) {
      entry.where = {};
      forget_places(entry.node);
    }
  }
}

Node resolve(const std::vector<FieldInfo>& fields, const Node& node, Reading& reading) {
  detail::SchemaFields keys;  // reports unknown and missing keys
  for (const FieldInfo& field : fields) {
    keys.add_handled(field.name, field.type, field.help);
    keys.last() = field;
    keys.last().handled = true;
  }
  keys.read(node, nullptr, reading);
  Node::Map out;
  for (const FieldInfo& field : fields) {
    if (const Node::Entry* entry = node.find(field.name)) {
      out.push_back({field.name, entry->where, resolve_value(field, entry->node, reading)});
    } else if (!field.handled && !field.required) {
      Node value = field.kind.empty() ? default_of(field) : Node();
      forget_places(value);
      out.push_back({field.name, {}, std::move(value)});
    }
  }
  return {std::move(out), node.where};
}

template <class Base>
void enter_into(Catalog<Base>& catalog, const ComponentInfo& info) {
  catalog.add(info, [info](const Node& node, Reading& reading) -> Ref<Base> {
    const size_t before = reading.problems.size();
    Node resolved = resolve(info.fields, detail::without_type(node), reading);
    if (reading.problems.size() != before) return {};
    return {info.name, detail::with_type(info.name, std::move(resolved), node),
            [](const typename Kind<Base>::Context&) -> std::unique_ptr<Base> {
              throw std::logic_error("a component that is only described cannot be made");
            }};
  });
}

}  // namespace

void enter_described(const DescribedComponent& component, Registry& registry) {
  const ComponentInfo info = info_of(component);
  bool entered = false;
  std::apply(
      [&](auto&... catalogs) {
        const auto try_one = [&](auto& catalog) {
          if (catalog.kind() != component.kind) return;
          enter_into(catalog, info);
          entered = true;
        };
        (try_one(catalogs), ...);
      },
      registry.catalogs);
  if (entered) return;
  throw Error(ExitCode::kRecipe, text("there is no component kind '{}'", component.kind));
}

}  // namespace accel
