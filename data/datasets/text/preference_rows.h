// Rows of preference pairs in the forms of common datasets.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/datasets/text/chat_rows.h"

namespace accel {

inline constexpr auto kTextsAsMessagesHelp =
    "Whether a prompt that is a text becomes a user's message, and its answers the assistant's, "
    "for "
    "the chat template. false: texts are tokenized as they are, followed by the end token.";

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

/// The fields of a row with one answer and its label. Of ChatFields only `messages` and the keys of
/// messages apply.
struct UnpairedFields : ChatFields {
  std::string prompt_field = "prompt";
  std::string answer = "completion";
  std::string label = "label";
  bool texts_as_messages = false;

  /// For fingerprints.
  std::string identity() const;
};

/// The row with `prompt` and `completion`, both texts or both lists of messages. A conversation in
/// `messages` ends with the completion. Throws DataError, without the place.
nlohmann::ordered_json unpaired_row(const nlohmann::ordered_json& row,
                                    const UnpairedFields& fields);

/// Whether the answer is desirable: true or 1, false or 0. Throws DataError, without the place.
bool label_of(const nlohmann::ordered_json& row, const UnpairedFields& fields);

/// The field of a row with a prompt alone. Of ChatFields only the keys of messages apply.
struct PromptFields : ChatFields {
  std::string prompt_field = "prompt";
  bool texts_as_messages = false;

  /// For fingerprints.
  std::string identity() const;
};

/// The row with `prompt`, a text or a list of messages. Throws DataError, without the place.
nlohmann::ordered_json prompt_only_row(const nlohmann::ordered_json& row,
                                       const PromptFields& fields);

/// What preference_row() saw in `row`, for the first screen: "messages with a prompt".
std::string preference_form(const nlohmann::ordered_json& row, const nlohmann::ordered_json& pair,
                            const PreferenceFields& fields);

}  // namespace accel
