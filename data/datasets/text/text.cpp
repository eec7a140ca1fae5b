// A text file as training data of language models: characters, bytes or tokens.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/row_values.h"
#include "core/base/activity.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/recipe/registry.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/skipped_samples.h"
#include "data/datasets/text/characters.h"
#include "data/datasets/text/text_columns.h"
#include "data/datasets/text/token_windows.h"
#include "formats/records/jsonl.h"
#include "formats/records/text_encoding.h"
#include "text/tokenizer.h"

namespace accel {
namespace {

constexpr size_t kPart = size_t{1} << 20;

void append(std::vector<int32_t>& all, const std::vector<int32_t>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// End of the part that begins at `first`.
size_t end_of_part(std::string_view text, size_t first) {
  if (text.size() - first <= kPart) return text.size();
  size_t at = first + kPart;
  while ((at = text.find('\n', at)) != std::string_view::npos) {
    ++at;
    const bool space = at < text.size() && std::string_view(" \t\r\n").find(text[at]) != text.npos;
    if (!space) return at;
  }
  return text.size();
}

/// The tokens of a text without special tokens. The text is encoded in parts of about 1 MiB, each
/// of which begins at a line without leading space, to limit memory.
std::vector<int32_t> tokens_of_text(const Tokenizer& tokenizer, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<int32_t> all;
  Activity shown("tokenizing", "B");
  for (size_t first = 0; first < text.size();) {
    shown.progress(static_cast<int64_t>(first), static_cast<int64_t>(text.size()));
    const size_t end = end_of_part(text, first);
    append(all, tokenizer.encode(text.substr(first, end - first), /*with_special=*/false));
    first = end;
  }
  return all;
}

/// The tokens of all documents, each followed by the tokenizer's end token. Throws DataError if the
/// tokenizer has none. Unreadable documents go to `bad`. `bytes`: of the documents' file.
std::vector<int32_t> tokens_of_documents(const Tokenizer& tokenizer, JsonlReader documents,
                                         size_t bytes, BadSamples& bad) {
  const SpecialTokens& special = tokenizer.special();
  const std::optional<int32_t> end = special.eos ? special.eos : special.sep;
  if (!end) {
    throw DataError("the tokenizer has no token for the end of a document",
                    "name one as \"eos_token\" in 'special_tokens_map.json' in the same folder");
  }
  std::vector<int32_t> all;
  std::vector<std::string_view> fields;
  Activity shown("tokenizing", "B");
  while (true) {
    shown.progress(static_cast<int64_t>(documents.offset()), static_cast<int64_t>(bytes));
    try {
      if (!documents.next(fields)) break;
      append(all, tokenizer.encode(fields[0], /*with_special=*/false));
      all.push_back(*end);
    } catch (const DataError& error) {
      bad.leave_out(error);
    }
  }
  return all;
}

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

/// A text as a sequence of numbers.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual int64_t count() const = 0;
  /// Reads ids.size() numbers from position `first`. Thread-safe.
  virtual void read(int64_t first, std::span<int64_t> ids) const = 0;
  virtual void describe(DataShape& shape) const = 0;
  /// Encoding of the text, for fingerprints.
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
    tokens_ = field_.empty()
                  ? tokens_of_text(*tokenizer_, text)
                  : tokens_of_documents(*tokenizer_, JsonlReader(text, {field_}, options.path.text),
                                        text.size(), bad);
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

class Text final : public Dataset, public SkipsSamples, public SequenceWindows {
 public:
  static constexpr auto kName = "text";
  static constexpr const char* kHintFor[] = {"txt"};
  static constexpr auto kSummary =
      "Windows of a text file, for prediction of the next character, byte or token.";

  static Schema<TextOptions> schema() {
    return with_bad_samples(
               with_window_options(
                   Schema<TextOptions>()
                       .field("path", &TextOptions::path,
                              "File of the text; read on demand, except for tokens, which are in "
                              "memory.")
                       .required()
                       .field("level", &TextOptions::level,
                              "chars: the UTF-8 characters of the file. bytes: 256 values. tokens: "
                              "of a tokenizer.")
                       .field(
                           "tokenizer", &TextOptions::tokenizer,
                           "A tokenizer.json, the folder that holds it, or SentencePiece's .model, "
                           "for 'level: tokens'.")
                       .field("json_field", &TextOptions::json_field,
                              "If set, the file is JSON Lines and this field of each line is a "
                              "document, followed by the tokenizer's end token.")))
        .check(&check_level);
  }

  explicit Text(const TextOptions& options)
      : file_(options.level == TextLevel::kTokens
                  ? as_utf8(map_file(options.path.text), options.path.text)
                  : map_file(options.path.text)),
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
  int64_t overlap() const override { return windows_.overlap(); }

 private:
  SharedBytes file_;
  BadSamples bad_;
  std::unique_ptr<TokenSource> source_;
  TokenWindows windows_;
  std::string fingerprint_;
};

const Register<Text> text_dataset;

}  // namespace
}  // namespace accel
