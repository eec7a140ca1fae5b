// Token ids of language-model corpora: a binary file, or a folder of `accel-run prepare`.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/row_values.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/corpus/token_shards.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/text/token_windows.h"

namespace accel {
namespace {
enum class TokenType { kUint16, kUint32 };
}  // namespace

template <>
struct EnumNames<TokenType> {
  static constexpr std::pair<TokenType, const char*> kValues[] = {{TokenType::kUint16, "uint16"},
                                                                  {TokenType::kUint32, "uint32"}};
};

namespace {

struct TokensOptions : WindowOptions {
  InputPath path;
  TokenType dtype = TokenType::kUint16;
  Auto<int64_t> vocab_size;
};

int64_t width_of(TokenType type) {
  return type == TokenType::kUint16 ? 2 : 4;
}

TokenFiles open_tokens(const TokensOptions& options) {
  const std::string& path = options.path.text;
  if (!std::filesystem::is_directory(path)) {
    return {path, width_of(options.dtype)};
  }
  TokenFiles files(path);
  if (width_of(options.dtype) > files.width()) {
    throw DataError(text("the tokens of '{}' are {}, and 'dtype' is another", path,
                         token_type_name(files.width())),
                    "leave 'dtype' out");
  }
  if (options.vocab_size && *options.vocab_size < files.vocab_size()) {
    throw DataError(text("'vocab_size' is {}, and the tokenizer of '{}' has {} tokens",
                         *options.vocab_size, path, files.vocab_size()),
                    "leave 'vocab_size' out, or raise it");
  }
  return files;
}

class Tokens final : public Dataset, public SequenceWindows {
 public:
  static constexpr auto kName = "tokens";
  static constexpr auto kSummary =
      "Windows of a corpus of token ids, for prediction of the next token.";

  static Schema<TokensOptions> schema() {
    return with_window_options(
        Schema<TokensOptions>()
            .field("path", &TokensOptions::path,
                   "A folder of `accel-run prepare`, or a file of tokens, little-endian, nothing "
                   "before or between them.")
            .required()
            .field("dtype", &TokensOptions::dtype,
                   "How each token of a file is stored; the index of a folder says it for its "
                   "shards.")
            .field("vocab_size", &TokensOptions::vocab_size,
                   "All tokens are below this; auto: the size of the tokenizer of a folder; of a "
                   "file, found by reading it once.",
                   if_given<Auto>(at_least<int64_t>(1)))
            .renamed_from("vocab"));
  }

  explicit Tokens(const TokensOptions& options)
      : path_(options.path.text),
        files_(open_tokens(options)),
        windows_(options, files_.size(), path_),
        vocab_(options.vocab_size ? *options.vocab_size : known_vocab()) {
    Fingerprint fingerprint;
    fingerprint.add(files_.width()).add(vocab_);
    for (const SharedBytes& file : files_.contents()) fingerprint.add_content(file.view);
    windows_.add_to(fingerprint);
    fingerprint_ = fingerprint.text();
  }

  int64_t size() const override { return windows_.size(); }

  Sample sample(int64_t index) const override {
    return windows_.sample(index, [this](int64_t first, std::span<int64_t> ids) {
      files_.read(first, ids);
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] >= vocab_) refuse(first + static_cast<int64_t>(i), ids[i]);
      }
    });
  }

  DataShape shape() const override {
    DataShape shape = windows_.shape();
    shape.vocab = vocab_;
    return shape;
  }

  std::string fingerprint() const override { return fingerprint_; }
  int64_t overlap() const override { return windows_.overlap(); }

 private:
  int64_t known_vocab() const {
    return files_.vocab_size() > 0 ? files_.vocab_size() : largest_token() + 1;
  }

  int64_t largest_token() const {
    constexpr int64_t kBlock = 4096;
    std::vector<int64_t> block(kBlock);
    int64_t largest = 0;
    for (int64_t first = 0; first < files_.size(); first += kBlock) {
      const std::span<int64_t> ids(block.data(),
                                   static_cast<size_t>(std::min(kBlock, files_.size() - first)));
      files_.read(first, ids);
      largest = std::max(largest, *std::max_element(ids.begin(), ids.end()));
    }
    return largest;
  }

  [[noreturn]] void refuse(int64_t at, int64_t found) const {
    throw DataError(accel::text("token {} of '{}' is {}, not below the 'vocab_size' of {}", at,
                                path_, found, vocab_),
                    "check 'vocab_size' and 'dtype'");
  }

  std::string path_;
  TokenFiles files_;
  TokenWindows windows_;
  int64_t vocab_;
  std::string fingerprint_;
};

const Register<Tokens> tokens;

}  // namespace
}  // namespace accel
