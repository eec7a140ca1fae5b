// Folders of token shards: written by `accel-run prepare`, read by the dataset `tokens`.
//
//   FOLDER/tokens.json       index: type and number of the tokens, names of the shards
//   FOLDER/shard_00000.bin   token ids, little-endian, nothing before or between them
//
// A corpus that was prepared in parts has such a folder `part_00002_of_00016` for each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/mapped_file.h"

namespace accel {

inline constexpr auto kShardsIndex = "tokens.json";

/// Bytes of a token: 2 up to 65,536 kinds, else 4.
int64_t token_width(int64_t vocab_size);

/// "uint16", "uint32"
const char* token_type_name(int64_t width);

struct TokenShard {
  std::string file;  ///< without its folder
  int64_t tokens = 0;
};

/// A part of a corpus.
struct CorpusPart {
  int64_t index = 0;
  int64_t count = 1;

  /// "part_00002_of_00016"
  std::string folder() const;
};

struct ShardsIndex {
  int64_t width = 2;  ///< bytes of a token
  int64_t vocab_size = 0;
  int64_t documents = 0;
  int64_t empty_documents = 0;       ///< left out
  int64_t unreadable_documents = 0;  ///< left out
  std::string tokenizer;             ///< its digest
  std::string identity;  ///< hash of all that determines the tokens; of parts, equal in all
  CorpusPart part = {};
  std::vector<TokenShard> shards = {};

  int64_t tokens() const;
};

/// The content of kShardsIndex.
std::string shards_index_text(const ShardsIndex& index);

/// Throws DataError for a file that is not an index.
ShardsIndex read_shards_index(const std::string& folder);
/// The index in `text`, which `name` is for messages. Throws DataError.
ShardsIndex parse_shards_index(std::string_view text, const std::string& name);

/// Whether `path` is a folder with an index or with parts.
bool has_token_shards(const std::string& path);

/// Writes tokens as shards into a folder.
class ShardsWriter {
 public:
  /// Throws FileError.
  ShardsWriter(Files& files, std::string folder, int64_t width, int64_t shard_bytes);

  /// A shard ends after the document that fills it.
  void add(std::span<const int32_t> document);
  /// Syncs the shards and returns them.
  std::vector<TokenShard> finish();

 private:
  void end_shard();

  Files& files_;
  std::string folder_;
  int64_t width_, shard_bytes_;
  std::vector<TokenShard> shards_;
  std::unique_ptr<OutputFile> open_;
  std::vector<std::byte> buffer_;
};

/// A sequence of tokens in one or several files, mapped or streamed.
class TokenFiles {
 public:
  /// Bytes of a file that is not mapped.
  using ReadBytes = std::function<void(size_t file, int64_t first, std::span<std::byte> out)>;

  /// Files of `index` that `read` reads; `bytes` are their sizes, `name` is for messages. Throws
  /// DataError for other sizes than the index has.
  TokenFiles(const ShardsIndex& index, const std::vector<int64_t>& bytes, const std::string& name,
             ReadBytes read);
  /// One file of tokens of `width` bytes. Throws DataError.
  TokenFiles(const std::string& path, int64_t width);
  /// The shards of a folder, or of all parts in it. Throws DataError for missing parts, parts of
  /// different corpora, and shards of another size than the index has.
  explicit TokenFiles(const std::string& folder);

  int64_t size() const { return starts_.back(); }
  int64_t width() const { return width_; }
  /// All tokens are below it; 0: unknown.
  int64_t vocab_size() const { return vocab_size_; }
  /// Copies the tokens from position `first`.
  void read(int64_t first, std::span<int64_t> ids) const;
  /// The mapped files.
  const std::vector<SharedBytes>& contents() const { return files_; }
  /// Calls `use` with each file that holds some of `count` tokens from `first`, the position of its
  /// first byte and the number of bytes.
  template <class Use>
  void each_range(int64_t first, int64_t count, const Use& use) const {
    auto file = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), first) -
                                    starts_.begin() - 1);
    for (; count > 0; ++file) {
      const int64_t taken = std::min(count, starts_[file + 1] - first);
      if (taken > 0) use(file, (first - starts_[file]) * width_, taken * width_);
      first += taken;
      count -= taken;
    }
  }

 private:
  void add_shards(const std::string& folder, const ShardsIndex& index);
  void add_file(const std::string& path, int64_t tokens);
  void add_tokens(const std::string& path, int64_t bytes, int64_t tokens);

  ReadBytes read_;  ///< none: the files are mapped
  int64_t width_ = 2, vocab_size_ = 0;
  std::vector<SharedBytes> files_;
  std::vector<int64_t> starts_ = {0};  ///< position of the first token of each file, and the end
};

}  // namespace accel
