#include "infer/text_codec.h"

#include <map>
#include <optional>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "data/datasets/text/truncation.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace accel {
namespace {

constexpr int64_t kBytes = 256;

class ByteCodec final : public TextCodec {
 public:
  std::vector<int64_t> encode(const std::string& text) const override {
    std::vector<int64_t> ids;
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ids;
  }
  std::string decode(std::span<const int64_t> ids) const override {
    std::string bytes;
    for (const int64_t id : ids) {
      if (id >= 0 && id < kBytes) bytes += static_cast<char>(id);
    }
    return lossy_utf8(bytes);
  }
};

class CharacterCodec final : public TextCodec {
 public:
  explicit CharacterCodec(std::vector<std::string> names) : names_(std::move(names)) {
    for (size_t i = 0; i < names_.size(); ++i) ids_[names_[i]] = static_cast<int64_t>(i);
  }

  std::vector<int64_t> encode(const std::string& text) const override {
    const std::string valid = lossy_utf8(text);
    std::vector<int64_t> ids;
    for (size_t at = 0; at < valid.size();) {
      const std::string name = valid.substr(at, character_at(valid, at).bytes);
      const auto found = ids_.find(name);
      if (found == ids_.end()) {
        throw Error(ExitCode::kRecipe,
                    accel::text("the model has no token for the character {}", json_text(name)),
                    accel::text("its vocabulary has the {} characters of its training text",
                                names_.size()));
      }
      ids.push_back(found->second);
      at += name.size();
    }
    return ids;
  }

  std::string decode(std::span<const int64_t> ids) const override {
    std::string text;
    for (const int64_t id : ids) {
      if (id >= 0 && id < static_cast<int64_t>(names_.size())) {
        text += names_[static_cast<size_t>(id)];
      }
    }
    return text;
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, int64_t> ids_;
};

class TokenizerCodec final : public TextCodec {
 public:
  TokenizerCodec(const std::string& path, bool with_special)
      : tokenizer_(load_tokenizer(path)), with_special_(with_special) {}

  std::vector<int64_t> encode(const std::string& text) const override {
    const std::vector<int32_t> ids = tokenizer_->encode(text, with_special_);
    std::vector<int64_t> out(ids.begin(), ids.end());
    const SpecialTokens& special = tokenizer_->special();
    // A prompt gets no end token, unlike complete texts.
    while (with_special_ && out.size() > 1 &&
           (out.back() == special.eos || out.back() == special.sep)) {
      out.pop_back();
    }
    return out;
  }

  std::string decode(std::span<const int64_t> ids) const override {
    const std::vector<int32_t> narrow(ids.begin(), ids.end());
    return tokenizer_->decode(narrow);
  }

  std::set<int64_t> ends() const override {
    const std::optional<int32_t> end = tokenizer_->special().eos;
    return end ? std::set<int64_t>{*end} : std::set<int64_t>{};
  }

  std::vector<int64_t> beginning() const override {
    const SpecialTokens& special = tokenizer_->special();
    const std::optional<int32_t> first = special.bos ? special.bos : special.eos;
    return first ? std::vector<int64_t>{*first} : std::vector<int64_t>{};
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool with_special_;
};

class SourceCodec final : public TextCodec {
 public:
  explicit SourceCodec(const SourceTexts& texts)
      : texts_(texts), tokenizer_(load_tokenizer(texts.tokenizer)) {
    const std::optional<int32_t> eos = tokenizer_->special().eos;
    if (texts.append_eos && eos) end_ = tokenizer_->token(*eos);
  }

  std::vector<int64_t> encode(const std::string& text) const override {
    std::string whole = texts_.prefix + text;
    if (!whole.ends_with(end_)) whole += end_;
    const std::vector<int32_t> ids =
        texts_.max_length > 0
            ? encode_cut(*tokenizer_, whole, cut_for(*tokenizer_, {texts_.max_length})).ids
            : tokenizer_->encode(whole);
    return {ids.begin(), ids.end()};
  }
  std::string decode(std::span<const int64_t> ids) const override {
    const std::vector<int32_t> narrow(ids.begin(), ids.end());
    return tokenizer_->decode(narrow);
  }
  std::set<int64_t> ends() const override {
    const std::optional<int32_t> end = tokenizer_->special().eos;
    return end ? std::set<int64_t>{*end} : std::set<int64_t>{};
  }
  std::vector<int64_t> beginning() const override { return {}; }

 private:
  SourceTexts texts_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string end_;
};

const std::string* text_at(const Node& dataset, const char* key) {
  const Node::Entry* entry = dataset.find(key);
  const Scalar* scalar = entry ? entry->node.scalar() : nullptr;
  return scalar && !scalar->text.empty() ? &scalar->text : nullptr;
}

/// The first dataset of the training data, or null.
const Node* first_dataset(const Node& recipe) {
  const Node::Entry* data = recipe.find("data");
  const Node::Entry* train = data ? data->node.find("train") : nullptr;
  if (!train) return nullptr;
  const Node::List* parts = train->node.list();
  if (!parts) return &train->node;
  return parts->empty() ? nullptr : &parts->front();
}

}  // namespace

std::unique_ptr<TextCodec> codec_of_data(const Node& recipe, const DataShape& data) {
  const Node* dataset = first_dataset(recipe);
  if (!dataset || data.vocab == 0) return nullptr;
  const std::string* type = text_at(*dataset, "type");
  const bool one_text = type && *type == "text";
  if (type && *type == "text_to_text") {
    const auto value = [&](const char* key) {
      const std::string* found = text_at(*dataset, key);
      return found ? *found : std::string();
    };
    return codec_of_sources({.tokenizer = value("tokenizer"),
                             .prefix = value("source_prefix"),
                             .max_length = data.input.empty() ? 0 : data.input.front(),
                             .append_eos = value("append_eos") == "true"});
  }
  if (const std::string* tokenizer = text_at(*dataset, "tokenizer")) {
    return codec_of_tokenizer(*tokenizer, !one_text);  // one long text has no special tokens
  }
  if (!one_text) return nullptr;
  if (data.labels.empty()) return std::make_unique<ByteCodec>();
  return std::make_unique<CharacterCodec>(data.labels);
}

std::unique_ptr<TextCodec> codec_of_sources(const SourceTexts& texts) {
  return std::make_unique<SourceCodec>(texts);
}

std::string named_in_data(const Node& recipe, const char* key) {
  const Node* dataset = first_dataset(recipe);
  const std::string* path = dataset ? text_at(*dataset, key) : nullptr;
  return path ? *path : std::string();
}

std::unique_ptr<TextCodec> codec_of_tokenizer(const std::string& path, bool with_special) {
  return std::make_unique<TokenizerCodec>(path, with_special);
}

}  // namespace accel
