#include "core/schema_fields.h"

#include <algorithm>
#include <cctype>

#include "core/registry.h"

namespace accel {
namespace {

/// The components of a kind that have an option: "the optimizers adam, adamw"; "" for none.
std::string owners_of(const std::string& key, const std::string& kind, const Registry& registry) {
  constexpr size_t kMost = 4;
  std::vector<std::string> names;
  for (const CatalogIndex* catalog : registry.all()) {
    if (catalog->kind() != kind) continue;
    for (const auto& [name, component] : catalog->items()) {
      const std::vector<FieldInfo>& own = component.fields;
      if (std::any_of(own.begin(), own.end(), [&](const auto& f) { return f.name == key; })) {
        names.push_back(name);
      }
    }
  }
  if (names.empty()) return {};
  std::string out = "the " + kind + (names.size() > 1 ? "s " : " ");
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) out += (i > 0 ? ", " : "") + names[i];
  return out + (names.size() > kMost ? ", ..." : "");
}

/// What an option of this name belongs to: "'train'", "the optimizer sgd"; "" when to nothing.
std::string home_of(const std::string& key, const std::vector<FieldInfo>& fields,
                    const std::string& section, const Registry& registry) {
  for (const FieldInfo& field : fields) {
    const std::string path = section + field.name;
    for (const FieldInfo& inner : field.fields) {
      if (inner.name == key) return "'" + path + "'";
    }
    std::string home = field.kind.empty() ? "" : owners_of(key, field.kind, registry);
    if (home.empty()) home = home_of(key, field.fields, path + '.', registry);
    if (!home.empty()) return home;
  }
  return {};
}

std::string unknown_key_hint(const std::string& key, const std::vector<std::string>& names,
                             const Reading& reading) {
  const size_t dot = key.find('.');
  for (const std::string& name : names) {
    if (dot != key.npos && key.substr(0, dot) == name) {
      return "write '" + key.substr(dot + 1) + "' inside the section '" + name + "'";
    }
  }
  if (reading.problems.crowded()) return {};
  if (std::string near = did_you_mean(key, names); !near.empty()) return near;
  if (!reading.recipe) return {};
  for (const FieldInfo& field : *reading.recipe) {
    if (field.name == key) return "'" + key + "' belongs at the top of the recipe";
  }
  const std::string home = home_of(key, *reading.recipe, {}, reading.registry);
  return home.empty() ? "" : "'" + key + "' is an option of " + home;
}

void report_missing(const FieldInfo& field, const Span& where, Reading& reading) {
  reading.problems.error(where, "'" + field.name + "' is missing",
                         "add '" + field.name + "': " + field.help);
}

void check_keys(const Node& node, const std::vector<FieldInfo>& fields, Reading& reading) {
  if (node.scalar() || node.list()) {
    reading.problems.error(node.where, "expected a section, not " + node.describe());
    return;
  }
  std::vector<std::string> names;
  for (const FieldInfo& field : fields) names.push_back(field.name);
  static const Node::Map kNone;
  for (const Node::Entry& entry : node.map() ? *node.map() : kNone) {
    if (entry.key.starts_with("x-")) continue;
    if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
    reading.problems.error(entry.where, "unknown option '" + entry.key + "'",
                           unknown_key_hint(entry.key, names, reading));
  }
  for (const FieldInfo& field : fields) {
    if (field.required && !node.find(field.name)) {
      report_missing(field, node.where, reading);
    }
  }
}

/// Whether a `~key` removed the value: it is not null by mistake.
bool is_removed(const Node& node) {
  const Source* source = node.where.source.get();
  if (!node.null() || !source || node.where.line < 1) return false;
  size_t at = 0;
  for (int line = 1; line < node.where.line; ++line) at = source->text.find('\n', at) + 1;
  at += static_cast<size_t>(node.where.column) - 1;
  const auto letter = [&](size_t i) { return i < source->text.size() ? source->text[i] : ' '; };
  if (letter(at) == '\'' || letter(at) == '"') ++at;
  return letter(at) == '~' && std::isalpha(static_cast<unsigned char>(letter(at + 1)));
}

Node with_places(Node written, const Node* given) {
  if (!given) return written;
  written.where = given->where;
  if (!written.map()) return written;
  for (Node::Entry& entry : *written.map()) {
    if (const Node::Entry* source = given->find(entry.key)) {
      entry.where = source->where;
      entry.node = with_places(std::move(entry.node), &source->node);
    }
  }
  return written;
}

}  // namespace

namespace detail {

std::string inline_text(const Node& node) {
  if (const Scalar* scalar = node.scalar()) {
    return scalar->quoted ? "'" + scalar->text + "'" : scalar->text;
  }
  std::string out;
  if (const Node::List* list = node.list()) {
    for (const Node& item : *list) out += (out.empty() ? "" : ", ") + inline_text(item);
    return "[" + out + "]";
  }
  if (const Node::Map* map = node.map()) {
    for (const Node::Entry& entry : *map) {
      out += (out.empty() ? "" : ", ") + entry.key + ": " + inline_text(entry.node);
    }
    return "{" + out + "}";
  }
  return "none";
}

const Node& culprit_of(const Node& node, std::optional<size_t> item) {
  return item && node.list() && *item < node.list()->size() ? (*node.list())[*item] : node;
}

void report_broken_rule(const Node& node, const std::string& name, const std::string& words,
                        const Node& value, Reading& reading) {
  reading.problems.error(node.where,
                         "'" + name + "' must be " + words + ", not " + inline_text(value));
}

void SchemaFields::add(const OptionType& type, FieldInfo info, size_t offset, const void* fallback,
                       std::shared_ptr<const void> rule) {
  FieldInfo of_type = type.describe();
  info.type = std::move(of_type.type);
  info.kind = std::move(of_type.kind);
  info.fields = std::move(of_type.fields);
  info.json = of_type.json + (of_type.json.empty() || info.json.empty() ? "" : ", ") + info.json;
  info.fallback = inline_text(type.write(fallback));
  fields_.push_back({std::move(info), &type, offset, std::move(rule)});
}

void SchemaFields::add_handled(std::string name, std::string type, std::string help) {
  FieldInfo info;
  info.name = std::move(name);
  info.type = std::move(type);
  info.help = std::move(help);
  info.handled = true;
  fields_.push_back({std::move(info), nullptr, 0, nullptr});
}

void SchemaFields::read(const Node& node, void* out, Reading& reading) const {
  check_keys(node, info(), reading);
  for (const Field& field : fields_) {
    const Node::Entry* entry = node.find(field.info.name);
    if (!entry || !field.type) continue;
    const auto read = [&](Reading& into) {
      field.type->read(static_cast<char*>(out) + field.offset, field.rule.get(), entry->node,
                       field.info.name, into);
    };
    // Where the type has no word for nothing, the default stays when it is removed.
    Diagnostics unsaid;
    Reading trial{unsaid, reading.registry, reading.recipe};
    const size_t before = reading.problems.size();
    read(is_removed(entry->node) ? trial : reading);
    const bool nothing = entry->node.null() || (entry->node.list() && entry->node.list()->empty());
    if (field.info.required && nothing && reading.problems.size() == before) {
      report_missing(field.info, entry->node.where, reading);
    }
  }
}

Node SchemaFields::write(const void* options, const Node* given) const {
  Node::Map map;
  for (const Field& field : fields_) {
    if (!field.type) continue;
    const void* value = static_cast<const char*>(options) + field.offset;
    map.push_back({field.info.name, {}, field.type->write(value)});
  }
  return with_places({std::move(map), {}}, given);
}

std::vector<FieldInfo> SchemaFields::info() const {
  std::vector<FieldInfo> out;
  for (const Field& field : fields_) out.push_back(field.info);
  return out;
}

}  // namespace detail
}  // namespace accel
