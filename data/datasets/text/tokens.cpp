// Token ids of language-model corpora: a binary file, or a folder of `accel-run prepare`.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/row_values.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/corpus/token_shards.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/text/token_windows.h"
#include "data/loader/read_ahead.h"
#include "data/store/streamed_objects.h"

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
  DataPath location;
  StreamingSection streaming;
  TokenType dtype = TokenType::kUint16;
  Auto<int64_t> vocab_size;
};

int64_t width_of(TokenType type) {
  return type == TokenType::kUint16 ? 2 : 4;
}

/// A wrong width or vocabulary for the shards of `path` is an error.
void check_index(const TokensOptions& options, int64_t width, int64_t vocab_size) {
  const std::string& path = options.location.text;
  if (width_of(options.dtype) > width) {
    throw DataError(
        text("the tokens of '{}' are {}, and 'dtype' is another", path, token_type_name(width)),
        "leave 'dtype' out");
  }
  if (options.vocab_size && *options.vocab_size < vocab_size) {
    throw DataError(text("'vocab_size' is {}, and the tokenizer of '{}' has {} tokens",
                         *options.vocab_size, path, vocab_size),
                    "leave 'vocab_size' out, or raise it");
  }
}

TokenFiles mapped_tokens(const TokensOptions& options) {
  const std::string& path = options.location.text;
  if (!std::filesystem::is_directory(path)) {
    return {path, width_of(options.dtype)};
  }
  TokenFiles files(path);
  check_index(options, files.width(), files.vocab_size());
  return files;
}

/// The index of a URL: of shards, or of one file that is all of it.
ShardsIndex streamed_index(const TokensOptions& options, StreamedObjects& objects) {
  constexpr int64_t kMostOfAnIndex = int64_t{64} << 20;
  const std::string& url = options.location.text;
  ObjectStore& store = objects.store();
  if (store.find(kShardsIndex)) {
    const std::string name = store.url_of(kShardsIndex);
    ShardsIndex index =
        parse_shards_index(read_object_text(store, kShardsIndex, kMostOfAnIndex), name);
    if (index.part.count > 1) {
      say(text("data: '{}' is part {} of {} of a corpus", url, index.part.index + 1,
               index.part.count));
    }
    check_index(options, index.width, index.vocab_size);
    return index;
  }
  const auto file = store.find("");
  if (!file) {
    throw DataError(
        text("'{}' is neither a file of tokens nor a folder with '{}'", url, kShardsIndex),
        "give the URL of a folder that 'accel-run prepare' wrote");
  }
  const int64_t width = width_of(options.dtype);
  if (file->size % width != 0) {
    throw DataError(
        text("'{}' is {} bytes, not a whole number of tokens of {} bytes", url, file->size, width),
        "check 'dtype'");
  }
  if (!options.vocab_size) {
    throw DataError(text("'vocab_size' is auto, for which all of '{}' would be read", url),
                    "give 'vocab_size', or the URL of a folder that 'accel-run prepare' wrote");
  }
  ShardsIndex index;
  index.width = width;
  index.vocab_size = *options.vocab_size;
  index.shards = {{"", file->size / width}};
  return index;
}

TokenFiles streamed_tokens(const TokensOptions& options, StreamedObjects& objects) {
  const ShardsIndex index = streamed_index(options, objects);
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  for (const TokenShard& shard : index.shards) names.push_back(shard.file);
  objects.add(names);
  for (size_t i = 0; i < objects.count(); ++i) sizes.push_back(objects.info(i).size);
  objects.say_summary(options.location.text);
  return {index, sizes, options.location.text,
          [&objects](size_t file, int64_t first, std::span<std::byte> out) {
            objects.read(file, first, out);
          }};
}

class Tokens final : public Dataset, public SequenceWindows, public ReadsAhead {
 public:
  static constexpr auto kName = "tokens";
  static constexpr auto kSummary =
      "Windows of a corpus of token ids, for prediction of the next token.";

  static Schema<TokensOptions> schema() {
    return with_window_options(
        with_streaming(Schema<TokensOptions>(),
                       "A folder of `accel-run prepare`, or a file of tokens, little-endian, "
                       "nothing before or between them; or the URL of either.")
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
      : path_(options.location.text),
        objects_(options.location.is_url() ? stream_objects(path_, options.streaming) : nullptr),
        files_(objects_ ? streamed_tokens(options, *objects_) : mapped_tokens(options)),
        windows_(options, files_.size(), path_),
        vocab_(options.vocab_size ? *options.vocab_size : known_vocab()) {
    Fingerprint fingerprint;
    fingerprint.add(files_.width()).add(vocab_);
    for (const SharedBytes& file : files_.contents()) fingerprint.add_content(file.view);
    for (size_t i = 0; objects_ && i < objects_->count(); ++i) {
      fingerprint.add(objects_->identity(i));
    }
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

  void read_singly() const override {
    if (objects_) objects_->read_singly();
  }
  int64_t samples_ahead() const override {
    constexpr int64_t kMost = 65'536;
    if (!objects_ || objects_->is_at_hand()) return 0;
    const int64_t bytes = windows_.tokens() * files_.width();
    return std::clamp<int64_t>(objects_->ahead_bytes() / bytes, 1, kMost);
  }
  void read_ahead(std::span<const int64_t> samples) const override {
    if (!objects_) return;
    std::vector<ObjectPart> parts;
    for (const int64_t sample : samples) {
      files_.each_range(windows_.first_token(sample), windows_.tokens(),
                        [&](size_t file, int64_t first, int64_t bytes) {
                          objects_->add_parts(file, {first, bytes}, parts);
                        });
    }
    objects_->read_ahead(parts);
  }
  void forget_ahead() const override {
    if (objects_) objects_->forget_ahead();
  }
  bool exceeds_cache() const override {
    return objects_ && objects_->total_bytes() > objects_->cache_limit();
  }

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
  std::shared_ptr<StreamedObjects> objects_;  ///< null: the files are on this machine
  TokenFiles files_;
  TokenWindows windows_;
  int64_t vocab_;
  std::string fingerprint_;
};

const Register<Tokens> tokens;

}  // namespace
}  // namespace accel
