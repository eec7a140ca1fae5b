#include "data/datasets/hub/arrow_rows.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/convert_command.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/mapped_file.h"
#include "core/base/shared_library.h"
#include "core/base/text.h"
#include "data/datasets/hub/data_folder.h"
#include "data/datasets/hub/split_names.h"
#include "data/datasets/text/shard_files.h"
#include "data/store/streamed_objects.h"
#include "formats/strict_json.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kMaxDepth = 32;

json parse_json(const std::string& text, const std::string& path) {
  try {
    MemoryBudget budget(text.size(), path);
    return parse_strict_json(text, single_quoted(path), kMaxDepth, budget);
  } catch (const FormatError& error) {
    throw DataError(error.what(), "save the dataset again");
  }
}

/// Throws unless `split` is one of several.
void require_split(const std::string& path, const std::set<std::string>& splits,
                   const std::string& split) {
  if (splits.contains(split)) return;
  const std::string splits_of_path = text("'{}' holds the splits {}", path, quoted_list(splits));
  throw DataError(split.empty() ? splits_of_path : text("{}, not '{}'", splits_of_path, split),
                  "name one of them with 'split'");
}

/// The file names under `key` in the state of a saved dataset, which `path` is.
std::vector<std::string> listed_files(const std::string& path, const json& state, const char* key) {
  std::vector<std::string> files;
  const json list = state.value(key, json());
  if (!list.is_array()) return files;
  for (const json& file : list) {
    const json name = file.is_object() ? file.value("filename", json()) : json();
    if (!name.is_string() || !is_plain_file_name(name.get_ref<const std::string&>())) {
      throw DataError(text("'{}' does not name its files", path));
    }
    files.push_back(name.get<std::string>());
  }
  return files;
}

/// "train" of "train-00000-of-00002.parquet"; else empty.
std::string split_of(const std::string& name) {
  const size_t of = name.find("-of-");
  const size_t dash = of == std::string::npos || of == 0 ? of : name.rfind('-', of - 1);
  return dash == std::string::npos ? "" : name.substr(0, dash);
}

std::vector<std::string> plain_files(const fs::path& folder, const std::string& split,
                                     const std::string& extension) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != extension || !entry.is_regular_file()) continue;
    names.push_back(entry.path().filename());
  }
  if (names.empty()) throw DataError(text("no '*{}' files in '{}'", extension, folder.string()));
  std::sort(names.begin(), names.end());
  std::vector<std::string> files;
  for (const std::string& name : names_of_split(folder, std::move(names), split)) {
    files.push_back(folder / name);
  }
  return files;
}

}  // namespace

std::set<std::string> saved_splits(const DataFolder& folder) {
  constexpr auto kDict = "dataset_dict.json";
  const auto content = folder.text(kDict);
  if (!content) return {};
  const std::string path = folder.path() + "/" + kDict;
  const json info = parse_json(*content, path);
  std::set<std::string> splits;
  if (info.contains("splits") && info["splits"].is_array()) {
    for (const json& split : info["splits"]) {
      if (split.is_string() && is_plain_file_name(split.get_ref<const std::string&>())) {
        splits.insert(split.get<std::string>());
      }
    }
  }
  if (splits.empty()) {
    throw DataError(text("'{}' names no splits", path), "save the dataset again");
  }
  return splits;
}

std::optional<ArrowFiles> saved_files(const DataFolder& folder, const std::string& split) {
  const auto splits = saved_splits(folder);
  if (!splits.empty()) require_split(folder.path(), splits, split);
  const std::string below = splits.empty() ? "" : split + "/";
  const auto content = folder.text(below + "state.json");
  if (!content) return std::nullopt;
  if (splits.empty() && !split.empty()) {
    throw DataError(text("'{}' is one dataset without splits", folder.path()), "leave out 'split'");
  }
  const std::string path = folder.path() + "/" + below + "state.json";
  const json state = parse_json(*content, path);
  ArrowFiles files = {listed_files(path, state, "_data_files"),
                      listed_files(path, state, "_indices_files")};
  if (files.data.empty()) throw DataError(text("'{}' does not name its files", path));
  return splits.empty() ? files : in_folder(split, std::move(files));
}

ArrowFiles in_folder(const std::string& folder, ArrowFiles files) {
  for (auto* names : {&files.data, &files.indices}) {
    for (std::string& name : *names) name.insert(0, folder + "/");
  }
  return files;
}

std::vector<std::string> names_of_split(const std::string& folder, std::vector<std::string> names,
                                        const std::string& split) {
  std::set<std::string> splits;
  for (const std::string& name : names) splits.insert(split_of(name));
  if (splits == std::set<std::string>{""}) {
    const auto by_words = splits_of_file_names(names);
    splits.clear();
    for (const auto& [word, files] : by_words) splits.insert(word);
    if (by_words.contains(split)) names = by_words.at(split);
  } else if (!split.empty()) {
    std::erase_if(names, [&](const std::string& name) { return split_of(name) != split; });
  }
  if (splits.size() > 1 || !split.empty()) require_split(folder, splits, split);
  return names;
}

ArrowFiles arrow_files(const std::string& path, const std::string& split, ArrowFormat format) {
  if (!fs::is_directory(path)) {
    if (!split.empty()) {
      throw DataError(text("'split' requires a folder, and '{}' is a file", path));
    }
    return {{path}, {}};
  }
  const DiskFolder folder(path);
  const auto splits = saved_splits(folder);
  const bool chosen = !splits.empty();
  if (chosen) require_split(path, splits, split);
  if (format == ArrowFormat::kIpc) {
    if (const auto files = saved_files(folder, split)) return in_folder(path, *files);
  }
  const char* const extension = format == ArrowFormat::kParquet ? ".parquet" : ".arrow";
  return chosen ? ArrowFiles{plain_files(fs::path(path) / split, "", extension), {}}
                : ArrowFiles{plain_files(path, split, extension), {}};
}

namespace {

constexpr auto kArrowLibrary = "libaccel_arrow.so";
constexpr auto kIndexField = "indices";

ArrowFunction load_arrow(const std::string& path) {
  SharedLibrary library(kArrowLibrary);
  ArrowFunction open = nullptr;
  if (library.find(kArrowSymbol, open)) return open;
  std::string hint = "run 'tools/bootstrap.sh arrow' and build accel-run again";
  if (path.ends_with(".parquet") || path.ends_with(".arrow")) {
    hint += ", or convert the file: " + convert_command(path, ".jsonl");
  }
  throw DataError(
      text("'{}' requires the reader of Parquet and Arrow files: {}", path, library.error()),
      std::move(hint));
}

}  // namespace

void require_arrow(const std::string& path) {
  load_arrow(path);
}

/// Selects rows by indices, in their order.
class ArrowRows::Selected final : public RecordReader {
 public:
  Selected(const ArrowRows& rows, ArrowRequest request) : all_(rows) {
    request.any_order = true;
    for (const File& file : all_.files_) {
      readers_.push_back(all_.open_file(file, request));
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + readers_.back()->rows());
    }
    open_indices();
  }

  bool next(std::vector<std::string_view>& fields) override {
    std::vector<std::string_view> index;
    while (!indices_->next(index)) {
      if (at_ == all_.indices_.size()) return false;
      open_indices();
    }
    int64_t row = -1;
    std::from_chars(index[0].data(), index[0].data() + index[0].size(), row);
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), row);
    if (row < 0 || end == ends_.end()) {
      throw Error(ExitCode::kData,
                  text("{} names row {}, but the dataset has {}", indices_->location(), index[0],
                       ends_.back()),
                  "save the dataset again");
    }
    reader_ = readers_[static_cast<size_t>(end - ends_.begin())].get();
    reader_->seek(row - (*end - reader_->rows()));
    return reader_->next(fields);
  }
  std::string location() const override { return (reader_ ? *reader_ : *indices_).location(); }

 private:
  void open_indices() {
    indices_ =
        all_.open_file(all_.indices_[at_++], {.file = {}, .name = {}, .wanted = {kIndexField}});
  }

  const ArrowRows& all_;
  std::vector<std::unique_ptr<ArrowRecords>> readers_;  // one per file
  std::vector<int64_t> ends_;                           // cumulative number of rows
  std::unique_ptr<ArrowRecords> indices_;
  size_t at_ = 0;
  ArrowRecords* reader_ = nullptr;
};

ArrowRows::ArrowRows(const ArrowFiles& files, ArrowFormat format)
    : open_(load_arrow(files.data.front())), format_(format) {
  for (const std::string& path : files.data) files_.push_back({path, map_file(path)});
  for (const std::string& path : files.indices) indices_.push_back({path, map_file(path)});
}

namespace {

/// The reader of an object reads on to the footer of the next one.
class StreamedFile final : public RangeFile {
 public:
  StreamedFile(std::shared_ptr<StreamedObjects> objects, size_t object)
      : objects_(std::move(objects)), object_(object) {}

  int64_t size() const override { return objects_->info(object_).size; }
  void read(int64_t first, std::span<std::byte> out) const override {
    try {
      objects_->read(object_, first, out);
    } catch (const DataError& error) {  // the error is not of a single row
      throw Error(ExitCode::kData, error.what(), error.hint());
    }
  }
  void read_ahead(std::span<const std::pair<int64_t, int64_t>> ranges) const override {
    constexpr int64_t kFooter = int64_t{64} << 10;  // as the reader of Parquet supposes it
    std::vector<ObjectPart> parts;
    for (const auto& [first, bytes] : ranges) objects_->add_parts(object_, {first, bytes}, parts);
    if (object_ + 1 < objects_->count()) {
      const int64_t end = objects_->info(object_ + 1).size;
      const int64_t footer = std::min(end, kFooter);
      objects_->add_parts(object_ + 1, {end - footer, footer}, parts);
    }
    if (object_ == 0) objects_->forget_ahead();  // of a reader that did not reach the end
    objects_->read_ahead(parts);
  }

 private:
  const std::shared_ptr<StreamedObjects> objects_;
  const size_t object_;
};

/// A reader that owns the bytes of its file.
class MappedRecords final : public ArrowRecords {
 public:
  MappedRecords(SharedBytes bytes, std::unique_ptr<ArrowRecords> reader)
      : bytes_(std::move(bytes)), reader_(std::move(reader)) {}

  bool next(std::vector<std::string_view>& fields) override { return reader_->next(fields); }
  std::string location() const override { return reader_->location(); }
  std::vector<std::string> class_names(const std::string& field) const override {
    return reader_->class_names(field);
  }
  std::vector<ArrowColumn> columns() const override { return reader_->columns(); }
  int64_t rows() const override { return reader_->rows(); }
  void seek(int64_t row) override { reader_->seek(row); }

 private:
  SharedBytes bytes_;
  std::unique_ptr<ArrowRecords> reader_;
};

}  // namespace

ArrowRows::ArrowRows(const std::shared_ptr<StreamedObjects>& objects, ArrowFormat format,
                     size_t indices)
    : open_(load_arrow(objects->url_of(0))), format_(format) {
  if (indices > 0 && objects->total_bytes() > objects->cache_limit()) {
    throw DataError(
        text("'{}' has an indices mapping, for which its files of {} bytes are read at once, and "
             "'streaming.cache_limit' is {}",
             objects->store().url_of(""), objects->total_bytes(), objects->cache_limit()),
        "raise it, or save the dataset again after flatten_indices()");
  }
  const auto whole = std::make_shared<const ShardFiles>(objects);
  for (size_t i = 0; i < objects->count(); ++i) {
    File file{objects->url_of(i), {}};
    if (format == ArrowFormat::kParquet) {
      file.ranges = std::make_shared<StreamedFile>(objects, i);
      file.identity = objects->identity(i);
    } else {
      file.objects = whole;
      file.object = i;
    }
    (i + indices < objects->count() ? files_ : indices_).push_back(std::move(file));
  }
}

std::unique_ptr<ArrowRecords> ArrowRows::open_file(const File& file, ArrowRequest request) const {
  SharedBytes bytes = file.objects ? file.objects->open(file.object) : file.bytes;
  request.file = bytes.view;
  request.ranges = file.ranges.get();
  request.format = format_;
  request.name = file.path;
  std::unique_ptr<ArrowRecords> out;
  open_(request, out);
  if (!file.objects) return out;
  return std::make_unique<MappedRecords>(std::move(bytes), std::move(out));
}

std::unique_ptr<RecordReader> ArrowRows::open(const std::vector<std::string>& wanted,
                                              const std::vector<ArrowField>& kinds) const {
  ArrowRequest request;
  request.wanted = wanted;
  request.kinds = kinds;
  return open_all(std::move(request));
}

std::unique_ptr<RecordReader> ArrowRows::open_with_nulls(
    const std::vector<std::string>& wanted, const std::vector<ArrowField>& kinds) const {
  ArrowRequest request;
  request.wanted = wanted;
  request.kinds = kinds;
  request.keep_nulls = true;
  return open_all(std::move(request));
}

std::unique_ptr<RecordReader> ArrowRows::open_all(ArrowRequest request) const {
  if (indices_.empty()) {
    return std::make_unique<ChainedReader>(
        files_.size(), [this, request](size_t i) { return open_file(files_[i], request); });
  }
  return std::make_unique<Selected>(*this, std::move(request));
}

std::vector<ArrowColumn> ArrowRows::columns() const {
  return open_file(files_.front(), {})->columns();
}

FileContents ArrowRows::contents() const {
  FileContents all;
  for (const auto* files : {&files_, &indices_}) {
    for (const File& file : *files) {
      if (file.objects) {
        all.push_back(file.objects->content(file.object));
      } else if (file.ranges) {
        all.emplace_back(as_bytes(file.identity), file.ranges->size());
      } else {
        all.emplace_back(file.bytes.view);
      }
    }
  }
  return all;
}

std::vector<std::string> ArrowRows::class_names(const std::string& field, ArrowField kind) const {
  ArrowRequest request;
  request.wanted = {field};
  request.kinds = {kind};
  return open_file(files_.front(), request)->class_names(field);
}

}  // namespace accel
