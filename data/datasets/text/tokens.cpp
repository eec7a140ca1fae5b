// A binary file of token ids, as written by tokenizers of language-model corpora.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/row_values.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
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
  InputFile path;
  TokenType dtype = TokenType::kUint16;
  Auto<int64_t> vocab_size;
};

class Tokens final : public Dataset, public SequenceWindows {
 public:
  static constexpr auto kName = "tokens";
  static constexpr auto kSummary =
      "Windows of a .bin file of token ids, for prediction of the next token.";

  static Schema<TokensOptions> schema() {
    return with_window_options(
        Schema<TokensOptions>()
            .field("path", &TokensOptions::path,
                   "File of the tokens, little-endian, nothing before or between them.")
            .required()
            .field("dtype", &TokensOptions::dtype, "How each token is stored.")
            .field("vocab_size", &TokensOptions::vocab_size,
                   "All tokens are below this; auto: found by reading the file once.",
                   if_given<Auto>(at_least<int64_t>(1)))
            .renamed_from("vocab"));
  }

  explicit Tokens(const TokensOptions& options)
      : path_(options.path.text),
        file_(map_file(path_)),
        width_(options.dtype == TokenType::kUint16 ? 2 : 4),
        windows_(options, count_tokens(), path_),
        vocab_(options.vocab_size ? *options.vocab_size : largest_token() + 1) {
    Fingerprint fingerprint;
    fingerprint.add(static_cast<int64_t>(width_)).add(vocab_).add_content(file_.view);
    windows_.add_to(fingerprint);
    fingerprint_ = fingerprint.text();
  }

  int64_t size() const override { return windows_.size(); }

  Sample sample(int64_t index) const override {
    return windows_.sample(index, [this](int64_t first, std::span<int64_t> ids) {
      for (size_t i = 0; i < ids.size(); ++i) {
        const int64_t at = first + static_cast<int64_t>(i);
        ids[i] = token(at);
        if (ids[i] >= vocab_) refuse(at, ids[i]);
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
  int64_t count_tokens() const {
    if (file_.view.size() % width_ != 0) {
      throw DataError(accel::text("'{}' is {} bytes, not a whole number of tokens of {} bytes",
                                  path_, file_.view.size(), width_),
                      "check 'dtype'");
    }
    return static_cast<int64_t>(file_.view.size() / width_);
  }

  int64_t token(int64_t at) const {
    const std::byte* bytes = file_.view.data() + static_cast<size_t>(at) * width_;
    uint32_t value = 0;
    std::memcpy(&value, bytes, width_);
    return value;
  }

  int64_t largest_token() const {
    int64_t largest = 0;
    const int64_t count = count_tokens();
    for (int64_t at = 0; at < count; ++at) largest = std::max(largest, token(at));
    return largest;
  }

  [[noreturn]] void refuse(int64_t at, int64_t found) const {
    throw DataError(accel::text("token {} of '{}' is {}, not below the 'vocab_size' of {}", at,
                                path_, found, vocab_),
                    "check 'vocab_size' and 'dtype'");
  }

  std::string path_;
  SharedBytes file_;
  size_t width_;  // bytes per token
  TokenWindows windows_;
  int64_t vocab_;
  std::string fingerprint_;
};

const Register<Tokens> tokens;

}  // namespace
}  // namespace accel
