#include "text/pretrained/added_vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace accel {

AddedVocabulary::AddedVocabulary(const nlohmann::json& model) {
  const auto found = model.is_object() ? model.find("vocab") : model.end();
  if (!model.is_object() || found == model.end()) return;
  if (found->is_object()) {
    vocabulary_ = &*found;
    model_size_ = static_cast<int64_t>(found->size());
    for (const nlohmann::json& id : *found) {
      if (id.is_number_integer()) model_end_ = std::max(model_end_, id.get<int64_t>() + 1);
    }
  } else if (found->is_array()) {
    for (const nlohmann::json& entry : *found) {
      if (!entry.is_array() || entry.empty() || !entry[0].is_string()) return;
      scored_[entry[0].get_ref<const std::string&>()] = static_cast<int32_t>(model_size_++);
    }
  }
}

std::optional<int32_t> AddedVocabulary::model_id(std::string_view token) const {
  if (vocabulary_) {
    const auto found = vocabulary_->find(token);
    if (found == vocabulary_->end() || !found->is_number_integer()) return std::nullopt;
    return found->get<int32_t>();
  }
  const auto found = scored_.find(token);
  return found == scored_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int32_t> AddedVocabulary::id_of(std::string_view token) const {
  const auto found = positions_.find(std::string(token));
  return found == positions_.end() ? model_id(token) : tokens_[found->second].id;
}

void AddedVocabulary::add(AddedToken token) {
  if (token.content.empty()) return;
  const auto found = positions_.find(token.content);
  if (found != positions_.end()) {
    token.id = tokens_[found->second].id;
    tokens_[found->second] = std::move(token);
    return;
  }
  const auto known = model_id(token.content);
  if (!known && has_gaps()) {
    throw FormatError(
        text("the ids of tokenizer.json's vocabulary have gaps, so that the id of the "
             "added token '{}' is not defined",
             printable(token.content)));
  }
  const auto next = static_cast<int32_t>(std::max<int64_t>(largest_ + 1, model_size_));
  token.id = known.value_or(next);
  largest_ = std::max(largest_, token.id);
  positions_.emplace(token.content, tokens_.size());
  tokens_.push_back(std::move(token));
}

nlohmann::json AddedVocabulary::list() const {
  nlohmann::json list = nlohmann::json::array();
  for (const AddedToken& token : tokens_) {
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

}  // namespace accel
