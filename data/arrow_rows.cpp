#include "data/arrow_rows.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/error.h"

namespace accel {
namespace {

constexpr auto kArrowLibrary = "libaccel_arrow.so";
constexpr auto kIndexField = "indices";

ArrowFunction load_arrow(const std::string& path) {
  void* const library = ::dlopen(kArrowLibrary, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library ? ::dlsym(library, kArrowSymbol) : nullptr;
  if (symbol) return reinterpret_cast<ArrowFunction>(symbol);
  throw DataError("'" + path + "' takes the part for Parquet and Arrow files, which is not here: " +
                      ::dlerror(),
                  "run 'tools/bootstrap.sh arrow' and build accel-run once more");
}

}  // namespace

void require_arrow(const std::string& path) {
  load_arrow(path);
}

/// One file after another.
class ArrowRows::Chained final : public RecordReader {
 public:
  Chained(const ArrowRows& rows, ArrowRequest request) : all_(rows), request_(std::move(request)) {
    open_next();
  }

  bool next(std::vector<std::string_view>& fields) override {
    while (!reader_->next(fields)) {
      if (at_ == all_.files_.size()) return false;
      open_next();
    }
    return true;
  }
  std::string place() const override { return reader_->place(); }

 private:
  void open_next() { reader_ = all_.open_file(all_.files_[at_++], request_); }

  const ArrowRows& all_;
  ArrowRequest request_;
  size_t at_ = 0;
  std::unique_ptr<ArrowRecords> reader_;
};

/// The rows that indices name, in their order.
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
                  indices_->place() + " names row " + std::string(index[0]) + ", but there are " +
                      std::to_string(ends_.back()),
                  "save the dataset once more");
    }
    reader_ = readers_[static_cast<size_t>(end - ends_.begin())].get();
    reader_->go_to(row - (*end - reader_->rows()));
    return reader_->next(fields);
  }
  std::string place() const override { return (reader_ ? *reader_ : *indices_).place(); }

 private:
  void open_indices() {
    indices_ =
        all_.open_file(all_.indices_[at_++], {.file = {}, .name = {}, .wanted = {kIndexField}});
  }

  const ArrowRows& all_;
  std::vector<std::unique_ptr<ArrowRecords>> readers_;  // of all files
  std::vector<int64_t> ends_;                           // of those, in rows
  std::unique_ptr<ArrowRecords> indices_;
  size_t at_ = 0;
  ArrowRecords* reader_ = nullptr;
};

ArrowRows::ArrowRows(const ArrowFiles& files, ArrowFormat format)
    : open_(load_arrow(files.data.front())), format_(format) {
  for (const std::string& path : files.data) files_.push_back({path, map_file(path)});
  for (const std::string& path : files.indices) indices_.push_back({path, map_file(path)});
}

std::unique_ptr<ArrowRecords> ArrowRows::open_file(const File& file, ArrowRequest request) const {
  request.file = file.bytes.view;
  request.format = format_;
  request.name = file.path;
  std::unique_ptr<ArrowRecords> out;
  open_(request, out);
  return out;
}

std::unique_ptr<RecordReader> ArrowRows::open(const std::vector<std::string>& wanted,
                                              const std::vector<ArrowField>& kinds) const {
  ArrowRequest request;
  request.wanted = wanted;
  request.kinds = kinds;
  if (indices_.empty()) return std::make_unique<Chained>(*this, std::move(request));
  return std::make_unique<Selected>(*this, std::move(request));
}

FileContents ArrowRows::contents() const {
  FileContents all;
  for (const auto* files : {&files_, &indices_}) {
    for (const File& file : *files) all.push_back(file.bytes.view);
  }
  return all;
}

std::vector<std::string> ArrowRows::class_names(const std::string& field) const {
  ArrowRequest request;
  request.wanted = {field};
  return open_file(files_.front(), request)->class_names(field);
}

}  // namespace accel
