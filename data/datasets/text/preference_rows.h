// Rows of preference pairs in the forms of common datasets.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/datasets/text/chat_rows.h"

namespace accel {

/// The fields of a row that form a pair. Of ChatFields only the keys of messages apply.
struct PreferenceFields : ChatFields {
  std::string prompt_field = "prompt";
  std::string chosen = "chosen";
  std::string rejected = "rejected";
  bool texts_as_messages = false;

  /// For fingerprints.
  std::string identity() const;
};

/// The row with `prompt`, `chosen` and `rejected`, either all texts or all lists of messages.
/// Without a prompt, or with a text for a prompt beside messages, the prompt is the longest common
/// beginning of the two answers, as extract_prompt() of TRL finds it. Throws DataError, without the
/// place; its hint names the fields that the row has.
nlohmann::ordered_json preference_row(const nlohmann::ordered_json& row,
                                      const PreferenceFields& fields);

/// What preference_row() saw in `row`, for the first screen: "messages with a prompt".
std::string preference_form(const nlohmann::ordered_json& row, const nlohmann::ordered_json& pair,
                            const PreferenceFields& fields);

}  // namespace accel
