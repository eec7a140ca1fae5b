#include "runner/draft/rows_fields.h"

#include <algorithm>
#include <map>

#include "core/base/text.h"

namespace accel {
namespace {

/// The template's role for a role of the file; empty for an unknown one.
std::string usual_role(const std::string& role) {
  static const std::map<std::string, std::string> kRoles = {
      {"user", "user"},           {"human", "user"},          {"prompter", "user"},
      {"assistant", "assistant"}, {"gpt", "assistant"},       {"chatgpt", "assistant"},
      {"bot", "assistant"},       {"model", "assistant"},     {"ai", "assistant"},
      {"system", "system"},       {"developer", "developer"}, {"tool", "tool"},
      {"function", "function"}};
  const auto found = kRoles.find(ascii_lower(role));
  return found == kRoles.end() ? "" : found->second;
}

}  // namespace

int64_t tool_calls_of(const RowField& field) {
  const auto found = field.all_keys.find("tool_calls");
  return found == field.all_keys.end() ? 0 : found->second;
}

const RowField* usable(const SniffedRows& rows, const std::string& name,
                       std::initializer_list<int64_t RowField::*> kinds) {
  const RowField* field = rows.find(name);
  if (!field || field->rows * 2 < rows.readable()) return nullptr;
  const bool fits = std::any_of(kinds.begin(), kinds.end(),
                                [&](int64_t RowField::*kind) { return field->is(kind); });
  return fits ? field : nullptr;
}

const RowField* first_usable(const SniffedRows& rows, FieldNames names,
                             std::initializer_list<int64_t RowField::*> kinds) {
  for (const char* name : names) {
    if (const RowField* field = usable(rows, name, kinds)) return field;
  }
  return nullptr;
}

const RowField* text_field_of(const SniffedRows& rows, FieldNames names) {
  return first_usable(rows, names, {&RowField::texts});
}

std::string message_key(const RowField& field, FieldNames names, int64_t without) {
  for (const char* name : names) {
    const auto found = field.key_rows.find(name);
    if (found == field.key_rows.end()) continue;
    if ((found->second + without) * 10 >= field.messages * 9) return name;
  }
  return "";
}

std::optional<MessageKeys> message_keys(const RowField& field) {
  if (!field.is(&RowField::lists_of_objects)) return std::nullopt;
  MessageKeys keys{.role_key = message_key(field, kRoleKeys),
                   .content_key = message_key(field, kContentKeys, tool_calls_of(field)),
                   .roles = {}};
  if (keys.role_key.empty() || keys.content_key.empty()) return std::nullopt;
  for (const auto& [role, count] : field.keys.at(keys.role_key).counts) {
    const std::string usual = usual_role(role);
    keys.roles[role] = usual.empty() ? role : usual;
  }
  return keys;
}

}  // namespace accel
