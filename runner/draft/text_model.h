// Choice of tokenizer and model in drafts for text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/draft/recipe_draft.h"

namespace accel {

enum class TextModelKind {
  kNextTokens,
  kClasses,  ///< classes of texts, or numbers
  kLabels,   ///< labels of words
  kTargets,  ///< target texts of source texts
};

/// The data that a text model is drafted for.
struct TextNeeds {
  TextModelKind kind = TextModelKind::kNextTokens;
  std::filesystem::path file;
  std::vector<std::string> fields;  ///< with the text
  bool chat = false;                ///< a chat template is needed
  bool cased = false;               ///< capitals matter: names of entities
  int64_t samples = 0;
};

/// The option of a dataset.
constexpr auto kTokenizerLine = "tokenizer: \"${vars.tokenizer}\"";

/// `max_length` of a dataset: `wanted`, or the positions of the draft's model if these are fewer.
std::string max_length_line(const RecipeDraft& draft, int64_t wanted,
                            const std::string& comment = "");

/// Whether the folder has an encoder-decoder; "" has none. Throws Error(kRecipe) for a folder
/// without a config.
bool is_encoder_decoder(const std::string& folder);

/// Sets model, tokenizer, learning rate, duration, batch and the command that comes first, with
/// findings. Throws Error(kRecipe) for folders of the request that do not fit.
void choose_text_model(RecipeDraft& draft, const DraftRequest& request, const TextNeeds& needs);

}  // namespace accel
