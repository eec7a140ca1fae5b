// Fields of JSON rows by name and type, and lists of messages among them.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>

#include "runner/draft/sniff_rows.h"

namespace accel {

using FieldNames = std::initializer_list<const char*>;

/// A field that most rows have, with values of one kind; null if there is none.
const RowField* usable(const SniffedRows& rows, const std::string& name,
                       std::initializer_list<int64_t RowField::*> kinds);
/// The first of `names` that is usable().
const RowField* first_usable(const SniffedRows& rows, FieldNames names,
                             std::initializer_list<int64_t RowField::*> kinds);
/// The first of `names` that is a text.
const RowField* text_field_of(const SniffedRows& rows, FieldNames names);

inline constexpr FieldNames kRoleKeys = {"role", "from", "speaker", "author"};
inline constexpr FieldNames kContentKeys = {"content", "value", "text", "message"};

/// The first of `names` that is a text in every message, but for `without`.
std::string message_key(const RowField& field, FieldNames names, int64_t without = 0);

/// Messages of a list that call tools, which may have no text.
int64_t tool_calls_of(const RowField& field);

/// The keys of a list of messages.
struct MessageKeys {
  std::string role_key, content_key;
  std::map<std::string, std::string> roles;  ///< of the file to those of chat templates
};
/// None for a field that is no list of messages.
std::optional<MessageKeys> message_keys(const RowField& field);

}  // namespace accel
