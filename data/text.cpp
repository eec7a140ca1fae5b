// A text file as training data for language models, by character, by byte or by token.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/dataset.h"
#include "core/input_path.h"
#include "core/registry.h"
#include "data/bad_samples.h"
#include "data/characters.h"
#include "data/fingerprint.h"
#include "data/text_columns.h"
#include "data/token_stream.h"
#include "data/token_windows.h"
#include "runner/formats/jsonl.h"
#include "runner/formats/mapped_file.h"

namespace accel {
namespace {
enum class TextLevel { kChars, kBytes, kTokens };
}  // namespace

template <>
struct EnumNames<TextLevel> {
  static constexpr std::pair<TextLevel, const char*> kValues[] = {
      {TextLevel::kChars, "chars"}, {TextLevel::kBytes, "bytes"}, {TextLevel::kTokens, "tokens"}};
};

namespace {

constexpr int64_t kByteValues = 256;

struct TextOptions : WindowOptions {
  InputFile path;
  TextLevel level = TextLevel::kChars;
  InputPath tokenizer;
  std::string json_field;
  OnBadSample on_bad_sample;
};

/// A text as numbers, however it is divided.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual int64_t count() const = 0;
  /// The numbers from `first` on, as many as `ids` takes. Safe to share.
  virtual void read(int64_t first, std::span<int64_t> ids) const = 0;
  virtual void describe(DataShape& shape) const = 0;
  /// What makes these numbers of that text: for fingerprints.
  virtual std::string identity() const = 0;
};

class CharacterSource final : public TokenSource {
 public:
  CharacterSource(std::string_view text, const std::string& path) : characters_(text, path) {}

  int64_t count() const override { return characters_.count(); }
  void read(int64_t first, std::span<int64_t> ids) const override { characters_.read(first, ids); }
  void describe(DataShape& shape) const override {
    shape.labels = characters_.names();
    shape.vocab = static_cast<int64_t>(shape.labels.size());
  }
  std::string identity() const override { return "chars"; }

 private:
  Characters characters_;
};

class ByteSource final : public TokenSource {
 public:
  explicit ByteSource(std::string_view text) : text_(text) {}

  int64_t count() const override { return static_cast<int64_t>(text_.size()); }
  void read(int64_t first, std::span<int64_t> ids) const override {
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<unsigned char>(text_[static_cast<size_t>(first) + i]);
    }
  }
  void describe(DataShape& shape) const override { shape.vocab = kByteValues; }
  std::string identity() const override { return "bytes"; }

 private:
  std::string_view text_;
};

class TokenizedSource final : public TokenSource {
 public:
  TokenizedSource(const TextOptions& options, std::span<const std::byte> text, BadSamples& bad)
      : tokenizer_(load_tokenizer(options.tokenizer.text)), field_(options.json_field) {
    tokens_ =
        field_.empty()
            ? tokens_of_text(*tokenizer_, text)
            : tokens_of_documents(*tokenizer_, JsonlReader(text, {field_}, options.path.text), bad);
  }

  int64_t count() const override { return static_cast<int64_t>(tokens_.size()); }
  void read(int64_t first, std::span<int64_t> ids) const override {
    std::copy_n(tokens_.begin() + first, ids.size(), ids.begin());
  }
  void describe(DataShape& shape) const override { describe_tokens(*tokenizer_, shape); }
  std::string identity() const override { return "tokens " + tokenizer_->digest() + field_; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string field_;
  std::vector<int32_t> tokens_;
};

std::unique_ptr<TokenSource> open_source(const TextOptions& options,
                                         std::span<const std::byte> bytes, BadSamples& bad) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (options.level) {
    case TextLevel::kChars:
      return std::make_unique<CharacterSource>(text, options.path.text);
    case TextLevel::kBytes:
      return std::make_unique<ByteSource>(text);
    case TextLevel::kTokens:
      return std::make_unique<TokenizedSource>(options, bytes, bad);
  }
  throw std::logic_error("no such level");
}

void check_level(const TextOptions& options, const Node& node, Reading& reading) {
  const bool tokens = options.level == TextLevel::kTokens;
  if (tokens && options.tokenizer.text.empty()) {
    reading.problems.error(node.where, "'level: tokens' takes a 'tokenizer'");
  }
  if (!tokens && !options.tokenizer.text.empty()) {
    reading.problems.error(node.where, "'tokenizer' is for 'level: tokens'");
  }
  if (!tokens && !options.json_field.empty()) {
    reading.problems.error(node.where, "'json_field' is for 'level: tokens'");
  }
  if (options.on_bad_sample.most && options.json_field.empty()) {
    reading.problems.error(node.where,
                           "'on_bad_sample' is for the lines that 'json_field' is a field of");
  }
}

class Text final : public Dataset, public LeavesOut {
 public:
  static constexpr auto kName = "text";
  static constexpr auto kSummary = "A text file, to predict each next character, byte or token of.";

  static Schema<TextOptions> schema() {
    return with_bad_samples(
               with_window_options(
                   Schema<TextOptions>()
                       .field("path", &TextOptions::path,
                              "File of the text; read as needed, but for tokens, which are kept in "
                              "memory.")
                       .required()
                       .field(
                           "level", &TextOptions::level,
                           "chars: the UTF-8 characters that occur in the file. bytes: any of 256. "
                           "tokens: those of a tokenizer.")
                       .field(
                           "tokenizer", &TextOptions::tokenizer,
                           "A tokenizer.json, the folder that holds it, or SentencePiece's .model, "
                           "for 'level: tokens'.")
                       .field(
                           "json_field", &TextOptions::json_field,
                           "Given: the file is JSON Lines and this field of each line a document, "
                           "behind which comes the tokenizer's end token.")))
        .check(&check_level);
  }

  explicit Text(const TextOptions& options)
      : file_(map_file(options.path.text)),
        bad_(options.on_bad_sample, options.path.text),
        source_(open_source(options, file_.view, bad_)),
        windows_(options, source_->count(), options.path.text) {
    bad_.tell(size());
    Fingerprint fingerprint;
    fingerprint.add(source_->identity()).add_content(file_.view);
    windows_.add_to(fingerprint);
    fingerprint_ = fingerprint.text();
  }

  int64_t size() const override { return windows_.size(); }

  Sample sample(int64_t index) const override {
    return windows_.sample(
        index, [this](int64_t first, std::span<int64_t> ids) { source_->read(first, ids); });
  }

  DataShape shape() const override {
    DataShape shape = windows_.shape();
    source_->describe(shape);
    return shape;
  }

  std::string fingerprint() const override { return fingerprint_; }
  int64_t left_out() const override { return bad_.count(); }

 private:
  SharedBytes file_;
  BadSamples bad_;
  std::unique_ptr<TokenSource> source_;
  TokenWindows windows_;
  std::string fingerprint_;
};

const Register<Text> text;

}  // namespace
}  // namespace accel
