// Added tokens of a tokenizer in the order of their addition, with the ids that Hugging Face's
// tokenizers package assigns.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"

namespace accel {

class AddedVocabulary {
 public:
  /// `model` is the object 'model' of a tokenizer.json; it must outlive the vocabulary. A malformed
  /// one has no tokens.
  explicit AddedVocabulary(const nlohmann::json& model);

  /// A token that is in the vocabulary keeps its id, others get the next one; repeated tokens take
  /// the latest flags. An empty one is ignored. Throws FormatError for a token that would get its
  /// id from a model with gaps.
  void add(AddedToken token);

  /// Of added tokens and those of the model.
  std::optional<int32_t> id_of(std::string_view token) const;
  /// Tokens of the model.
  int64_t model_size() const { return model_size_; }
  /// Whether some of the model's ids have no token.
  bool has_gaps() const { return model_end_ > model_size_; }
  bool is_added(std::string_view token) const { return positions_.contains(std::string(token)); }
  /// The list 'added_tokens' of a tokenizer.json.
  nlohmann::json list() const;

 private:
  std::optional<int32_t> model_id(std::string_view token) const;

  const nlohmann::json* vocabulary_ = nullptr;
  std::unordered_map<std::string_view, int32_t> scored_;  ///< tokens of a Unigram model
  int64_t model_size_ = 0;
  int64_t model_end_ = 0;  ///< the model's largest id plus one; 0 for a Unigram model
  int32_t largest_ = -1;   ///< id of an added token
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> positions_;
};

}  // namespace accel
