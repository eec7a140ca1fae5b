#include "data/datasets/text/preference_encoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "data/datasets/text/chat_encoder.h"

namespace accel {
namespace {

using Row = nlohmann::ordered_json;
using Ids = std::vector<int32_t>;

size_t common_prefix(const Ids& a, const Ids& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

Ids after(const Ids& all, size_t begin) {
  return {all.begin() + static_cast<ptrdiff_t>(begin), all.end()};
}

}  // namespace

Ids PreferenceEncoder::tokens_of_messages(const Row& row, const char* answer) const {
  if (!template_) {
    throw DataError("has messages, but the tokenizer has no chat template", "set 'chat_template'");
  }
  Row whole = row;
  whole["messages"] = row.at("prompt");
  if (answer) {
    for (const Row& message : row.at(answer)) whole["messages"].push_back(message);
  }
  Row variables = chat_variables(whole, *tokenizer_);
  variables["add_generation_prompt"] = answer == nullptr;
  return tokenizer_->encode(template_->render(variables), /*with_special=*/false);
}

Ids PreferenceEncoder::tokens_of_texts(const Row& row, const char* answer) const {
  auto whole = row.at("prompt").get<std::string>();
  if (answer) {
    const auto completion = row.at(answer).get<std::string>();
    whole.append(completion);
    const auto eos = tokenizer_->special().eos;
    if (eos && !completion.ends_with(tokenizer_->token(*eos))) {
      whole.append(tokenizer_->token(*eos));
    }
  }
  return tokenizer_->encode(whole);
}

Ids PreferenceEncoder::tokens_of(const Row& row, const char* answer) const {
  const bool messages = row.at("prompt").is_array();
  return messages ? tokens_of_messages(row, answer) : tokens_of_texts(row, answer);
}

PairTokens PreferenceEncoder::encode(const Row& row) const {
  Ids prompt = tokens_of(row, nullptr);
  const Ids chosen = tokens_of(row, "chosen"), rejected = tokens_of(row, "rejected");
  const size_t size = std::min(common_prefix(prompt, chosen), common_prefix(prompt, rejected));
  prompt.resize(size);
  return {std::move(prompt), after(chosen, size), after(rejected, size)};
}

AnswerTokens PreferenceEncoder::encode_answer(const Row& row) const {
  Ids prompt = tokens_of(row, nullptr);
  const Ids whole = tokens_of(row, "completion");
  const size_t size = common_prefix(prompt, whole);
  prompt.resize(size);
  return {std::move(prompt), after(whole, size)};
}

CompletionTokens cut_completion(const Ids& prompt, const Ids& completion, int64_t max_length,
                                KeptEnd kept) {
  CompletionTokens out{prompt, Ids(prompt.size(), 0)};
  out.ids.insert(out.ids.end(), completion.begin(), completion.end());
  out.completion.resize(out.ids.size(), 1);
  const auto most = static_cast<size_t>(max_length);
  if (out.ids.size() > most && kept == KeptEnd::kEnd) {
    const size_t begin = out.ids.size() - most;
    out = {after(out.ids, begin), after(out.completion, begin)};
  }
  out.ids.resize(std::min(out.ids.size(), most));
  out.completion.resize(out.ids.size());
  if (std::find(out.completion.begin(), out.completion.end(), 1) == out.completion.end()) {
    throw FormatError(
        text("no token of an answer is within {} tokens, which is 'max_length'; the "
             "prompt has {}",
             max_length, prompt.size()));
  }
  if (out.ids.size() < 2) throw FormatError("has a single token: nothing precedes the answer");
  return out;
}

}  // namespace accel
