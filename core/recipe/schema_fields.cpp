#include "core/recipe/schema_fields.h"

#include <algorithm>
#include <cctype>

#include "core/base/text.h"
#include "core/recipe/deprecated_names.h"
#include "core/recipe/key_hints.h"

namespace accel {
namespace {

void report_missing(const FieldInfo& field, const Span& where, Reading& reading) {
  reading.problems.error(where, text("'{}' is missing", field.name),
                         text("add '{}': {}", field.name, field.help));
}

void check_keys(const Node& node, const std::vector<FieldInfo>& fields, Reading& reading) {
  if (node.scalar() || node.list()) {
    reading.problems.error(node.where, text("expected a section, not {}", node.describe()));
    return;
  }
  if (node.map()) report_unknown_keys(*node.map(), fields, reading);
  for (const FieldInfo& field : fields) {
    if (field.required && !node.find(field.name)) {
      report_missing(field, node.where, reading);
    }
  }
}

/// Whether a `~key` removed the value, which is then null on purpose.
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

/// The defaults of a section's options are those of the member that holds it, not of its type.
void set_fallbacks(std::vector<FieldInfo>& fields, const Node& section) {
  for (FieldInfo& field : fields) {
    const Node::Entry* entry = section.find(field.name);
    if (!entry) continue;
    field.fallback = detail::inline_text(entry->node);
    if (field.kind.empty()) set_fallbacks(field.fields, entry->node);
  }
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

const Node& culprit_of(const Node& node, std::optional<size_t> item) {
  return item && node.list() && *item < node.list()->size() ? (*node.list())[*item] : node;
}

void report_broken_rule(const Node& node, const std::string& name, const std::string& words,
                        const Node& value, Reading& reading) {
  reading.problems.error(node.where,
                         text("'{}' must be {}, not {}", name, words, inline_text(value)));
}

void SchemaFields::add(const OptionType& type, const OptionText& text, size_t offset,
                       const void* fallback, std::shared_ptr<const void> rule) {
  FieldInfo info = type.describe();
  info.name = text.name;
  info.help = text.help;
  info.rule = text.rule;
  info.json += info.json.empty() || text.json.empty() ? "" : ", ";
  info.json += text.json;
  const Node value = type.write(fallback);
  info.fallback = inline_text(value);
  if (info.kind.empty()) set_fallbacks(info.fields, value);
  fields_.push_back({std::move(info), &type, offset, std::move(rule)});
}

void SchemaFields::add_handled(std::string_view name, std::string_view type,
                               std::string_view help) {
  FieldInfo info;
  info.name = name;
  info.type = type;
  info.help = help;
  info.handled = true;
  fields_.push_back({std::move(info), nullptr, 0, nullptr});
}

void SchemaFields::add_hint(std::string_view name, std::string_view value) {
  last().hints.push_back({std::string(name), std::string(value)});
}

Node SchemaFields::with_current_names(const Node& node, Reading& reading) const {
  Node out = node;
  DeprecatedNames(info(), reading.registry).replace(out, reading.problems);
  return out;
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
    // A removed value keeps its default where the type has no null value.
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
