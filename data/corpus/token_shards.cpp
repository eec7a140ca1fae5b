#include "data/corpus/token_shards.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr auto kFormat = "accel-run token shards";
constexpr int64_t kVersion = 1;
constexpr auto kPartPrefix = "part_";
constexpr size_t kBuffer = size_t{1} << 20;
constexpr int64_t kMostShort = int64_t{1} << 16;

std::string numbered(const char* prefix, int64_t number) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%05lld", static_cast<long long>(number));
  return prefix + std::string(digits);
}

const char* prepare_hint() {
  return "prepare the corpus again with 'accel-run prepare'";
}

ShardsIndex index_in(const ordered_json& json) {
  ShardsIndex out;
  out.width = json.at("dtype") == "uint32" ? 4 : 2;
  out.vocab_size = json.at("vocab_size").get<int64_t>();
  out.documents = json.at("documents").get<int64_t>();
  out.empty_documents = json.at("empty_documents").get<int64_t>();
  out.unreadable_documents = json.at("unreadable_documents").get<int64_t>();
  out.tokenizer = json.at("tokenizer").get<std::string>();
  out.identity = json.at("identity").get<std::string>();
  out.part = {json.at("part").get<int64_t>(), json.at("parts").get<int64_t>()};
  for (const ordered_json& shard : json.at("shards")) {
    out.shards.push_back({shard.at("file").get<std::string>(), shard.at("tokens").get<int64_t>()});
  }
  return out;
}

bool is_sound(const ShardsIndex& index) {
  return index.vocab_size > 0 && index.part.index >= 0 && index.part.index < index.part.count &&
         std::all_of(index.shards.begin(), index.shards.end(), [](const TokenShard& shard) {
           return shard.tokens > 0 && shard.file.find('/') == std::string::npos;
         });
}

std::vector<std::string> part_folders(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    const bool partial = name.find('.') != std::string::npos;
    if (name.starts_with(kPartPrefix) && !partial && entry.is_directory(error)) {
      out.push_back(name);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// `from` may be the end of the memory of `ids`.
template <class Stored>
void widen(const std::byte* from, std::span<int64_t> ids) {
  for (int64_t& id : ids) {
    Stored value = 0;
    std::memcpy(&value, from, sizeof value);
    id = value;
    from += sizeof value;
  }
}

}  // namespace

int64_t token_width(int64_t vocab_size) {
  return vocab_size <= kMostShort ? 2 : 4;
}

const char* token_type_name(int64_t width) {
  return width == 2 ? "uint16" : "uint32";
}

std::string CorpusPart::folder() const {
  return numbered(kPartPrefix, index) + numbered("_of_", count);
}

int64_t ShardsIndex::tokens() const {
  int64_t all = 0;
  for (const TokenShard& shard : shards) all += shard.tokens;
  return all;
}

std::string shards_index_text(const ShardsIndex& index) {
  ordered_json shards = ordered_json::array();
  for (const TokenShard& shard : index.shards) {
    shards.push_back({{"file", shard.file}, {"tokens", shard.tokens}});
  }
  const ordered_json json = {{"format", kFormat},
                             {"version", kVersion},
                             {"dtype", token_type_name(index.width)},
                             {"vocab_size", index.vocab_size},
                             {"tokens", index.tokens()},
                             {"documents", index.documents},
                             {"empty_documents", index.empty_documents},
                             {"unreadable_documents", index.unreadable_documents},
                             {"tokenizer", index.tokenizer},
                             {"identity", index.identity},
                             {"part", index.part.index},
                             {"parts", index.part.count},
                             {"shards", shards}};
  return json.dump(2) + "\n";
}

ShardsIndex read_shards_index(const std::string& folder) {
  const std::string path = folder + "/" + kShardsIndex;
  const SharedBytes bytes = map_file(path);
  return parse_shards_index(as_text(bytes.view), path);
}

ShardsIndex parse_shards_index(std::string_view content, const std::string& name) {
  try {
    const auto json = ordered_json::parse(content);
    if (json.at("format") == kFormat && json.at("version") == kVersion) {
      ShardsIndex out = index_in(json);
      if (is_sound(out)) return out;
    }
  } catch (const nlohmann::json::exception&) {
  }
  throw DataError(text("'{}' is no index of token shards", name), prepare_hint());
}

bool has_token_shards(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::path(path) / kShardsIndex, error) || !part_folders(path).empty();
}

ShardsWriter::ShardsWriter(Files& files, std::string folder, int64_t width, int64_t shard_bytes)
    : files_(files), folder_(std::move(folder)), width_(width), shard_bytes_(shard_bytes) {
  files_.make_dirs(folder_);
}

void ShardsWriter::add(std::span<const int32_t> document) {
  if (!open_) {
    const auto number = static_cast<int64_t>(shards_.size());
    shards_.push_back({numbered("shard_", number) + ".bin", 0});
    open_ = files_.create(folder_ + "/" + shards_.back().file);
  }
  const size_t begin = buffer_.size(), width = static_cast<size_t>(width_);
  buffer_.resize(begin + document.size() * width);
  std::byte* to = buffer_.data() + begin;
  for (const int32_t token : document) {
    std::memcpy(to, &token, width);  // the low bytes of a little-endian processor
    to += width;
  }
  shards_.back().tokens += static_cast<int64_t>(document.size());
  if (buffer_.size() >= kBuffer) {
    open_->write(buffer_);
    buffer_.clear();
  }
  if (shards_.back().tokens * width_ >= shard_bytes_) end_shard();
}

void ShardsWriter::end_shard() {
  open_->write(buffer_);
  buffer_.clear();
  open_->sync();
  open_->close();
  open_.reset();
}

std::vector<TokenShard> ShardsWriter::finish() {
  if (open_) end_shard();
  return shards_;
}

TokenFiles::TokenFiles(const std::string& path, int64_t width) : width_(width) {
  const SharedBytes file = map_file(path);
  const auto bytes = static_cast<int64_t>(file.view.size());
  if (bytes % width != 0) {
    throw DataError(
        text("'{}' is {} bytes, not a whole number of tokens of {} bytes", path, bytes, width),
        "check 'dtype'");
  }
  add_file(path, bytes / width);
}

TokenFiles::TokenFiles(const ShardsIndex& index, const std::vector<int64_t>& bytes,
                       const std::string& name, ReadBytes read)
    : read_(std::move(read)), width_(index.width), vocab_size_(index.vocab_size) {
  for (size_t i = 0; i < index.shards.size(); ++i) {
    add_tokens(name + "/" + index.shards[i].file, bytes[i], index.shards[i].tokens);
  }
}

TokenFiles::TokenFiles(const std::string& folder) {
  if (fs::exists(fs::path(folder) / kShardsIndex)) {
    const ShardsIndex index = read_shards_index(folder);
    if (index.part.count > 1) {
      throw DataError(
          text("'{}' is part {} of {} of a corpus", folder, index.part.index + 1, index.part.count),
          "give the folder of all parts");
    }
    add_shards(folder, index);
    return;
  }
  const std::vector<std::string> parts = part_folders(folder);
  if (parts.empty()) {
    throw DataError(text("'{}' has neither '{}' nor parts of a corpus", folder, kShardsIndex),
                    "give a file of tokens, or a folder that 'accel-run prepare' wrote");
  }
  const ShardsIndex first = read_shards_index(folder + "/" + parts.front());
  for (int64_t i = 0; i < first.part.count; ++i) {
    const std::string name = CorpusPart{i, first.part.count}.folder();
    if (std::find(parts.begin(), parts.end(), name) == parts.end()) {
      throw DataError(text("'{}' lacks '{}'", folder, name),
                      text("prepare it with '--part {}/{}'", i, first.part.count));
    }
    const ShardsIndex index = read_shards_index(folder + "/" + name);
    if (index.identity != first.identity || index.part.index != i) {
      throw DataError(
          text("'{}' and '{}' of '{}' are parts of different corpora", parts.front(), name, folder),
          "prepare all parts with the same options and files");
    }
    add_shards(folder + "/" + name, index);
  }
  if (parts.size() != static_cast<size_t>(first.part.count)) {
    throw DataError(text("'{}' has {} parts, not {}", folder, parts.size(), first.part.count),
                    "remove the parts of other divisions");
  }
}

void TokenFiles::add_shards(const std::string& folder, const ShardsIndex& index) {
  width_ = index.width;
  vocab_size_ = index.vocab_size;
  for (const TokenShard& shard : index.shards) add_file(folder + "/" + shard.file, shard.tokens);
}

void TokenFiles::add_file(const std::string& path, int64_t tokens) {
  files_.push_back(map_file(path));
  add_tokens(path, static_cast<int64_t>(files_.back().view.size()), tokens);
}

void TokenFiles::add_tokens(const std::string& path, int64_t bytes, int64_t tokens) {
  if (bytes != tokens * width_) {
    throw DataError(text("'{}' is {} bytes, not {}", path, bytes, tokens * width_),
                    "copy the file again, or prepare the corpus again");
  }
  starts_.push_back(starts_.back() + tokens);
}

void TokenFiles::read(int64_t first, std::span<int64_t> ids) const {
  const auto width = static_cast<size_t>(width_);
  each_range(first, static_cast<int64_t>(ids.size()), [&](size_t file, int64_t at, int64_t bytes) {
    const size_t count = static_cast<size_t>(bytes) / width;
    const std::byte* from = nullptr;
    if (read_) {
      // At the end of the ids, which overwrite each token after it is read.
      const auto end = std::as_writable_bytes(ids.first(count)).last(static_cast<size_t>(bytes));
      read_(file, at, end);
      from = end.data();
    } else {
      from = files_[file].view.data() + at;
    }
    if (width == sizeof(uint16_t)) {
      widen<uint16_t>(from, ids.first(count));
    } else {
      widen<uint32_t>(from, ids.first(count));
    }
    ids = ids.subspan(count);
  });
}

}  // namespace accel
