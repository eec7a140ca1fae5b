#include "data/record_sources.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "runner/formats/mapped_file.h"

namespace accel {
namespace {

constexpr auto kLineField = "text";

[[noreturn]] void no_column(const std::string& path, const std::string& field,
                            const std::vector<std::string>& columns) {
  std::string all;
  for (const std::string& column : columns) all.append(all.empty() ? "'" : ", '") += column + "'";
  throw DataError("'" + path + "' has no column '" + field + "'", "it has " + all);
}

class DelimitedReader final : public RecordReader {
 public:
  DelimitedReader(SharedBytes file, const CsvDialect& dialect, const std::string& path,
                  const std::vector<std::string>& wanted)
      : file_(std::move(file)), reader_(file_.view, dialect, path) {
    std::vector<std::string_view> header;
    reader_.next(header);
    const std::vector<std::string> columns(header.begin(), header.end());
    for (const std::string& field : wanted) {
      const auto found = std::find(columns.begin(), columns.end(), field);
      if (found == columns.end()) no_column(path, field, columns);
      places_.push_back(static_cast<size_t>(found - columns.begin()));
    }
  }

  bool next(std::vector<std::string_view>& fields) override {
    if (!reader_.next(all_)) return false;
    fields.clear();
    for (const size_t place : places_) fields.push_back(all_[place]);
    return true;
  }
  std::string place() const override { return reader_.place(); }

 private:
  SharedBytes file_;
  CsvReader reader_;
  std::vector<size_t> places_;
  std::vector<std::string_view> all_;
};

class DelimitedSource final : public RecordSource {
 public:
  DelimitedSource(const std::string& path, const CsvDialect& dialect)
      : path_(path), dialect_(dialect), file_(map_file(path)) {}

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<DelimitedReader>(file_, dialect_, path_, wanted);
  }
  FileContents contents() const override { return {file_.view}; }
  std::string format() const override {
    return std::string("delimited by ") + std::string(1, dialect_.delimiter);
  }

 private:
  std::string path_;
  CsvDialect dialect_;
  SharedBytes file_;
};

class LineReader final : public RecordReader {
 public:
  LineReader(SharedBytes file, std::string path, size_t fields)
      : file_(std::move(file)),
        text_(reinterpret_cast<const char*>(file_.view.data()), file_.view.size()),
        path_(std::move(path)),
        fields_(fields) {}

  bool next(std::vector<std::string_view>& fields) override {
    while (at_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = end + 1;
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.find_first_not_of(" \t") == line.npos) continue;
      fields.assign(fields_, line);
      return true;
    }
    return false;
  }
  std::string place() const override { return path_ + ":" + std::to_string(line_); }

 private:
  SharedBytes file_;
  std::string_view text_;
  std::string path_;
  size_t fields_;
  size_t at_ = 0;
  int64_t line_ = 0;
};

class LineSource final : public RecordSource {
 public:
  explicit LineSource(const std::string& path) : path_(path), file_(map_file(path)) {}

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    for (const std::string& field : wanted) {
      if (field != kLineField) no_column(path_, field, {kLineField});
    }
    return std::make_unique<LineReader>(file_, path_, wanted.size());
  }
  FileContents contents() const override { return {file_.view}; }
  std::string format() const override { return "lines"; }

 private:
  std::string path_;
  SharedBytes file_;
};

using Sources = std::vector<std::unique_ptr<RecordSource>>;

class ChainedReader final : public RecordReader {
 public:
  ChainedReader(const Sources& sources, std::vector<std::string> wanted)
      : sources_(sources), wanted_(std::move(wanted)), reader_(sources_.front()->open(wanted_)) {}

  bool next(std::vector<std::string_view>& fields) override {
    while (!reader_->next(fields)) {
      if (at_ == sources_.size()) return false;
      reader_ = sources_[at_++]->open(wanted_);
    }
    return true;
  }
  std::string place() const override { return reader_->place(); }

 private:
  const Sources& sources_;
  std::vector<std::string> wanted_;
  std::unique_ptr<RecordReader> reader_;
  size_t at_ = 1;
};

class ChainedSource final : public RecordSource {
 public:
  explicit ChainedSource(Sources sources) : sources_(std::move(sources)) {}

  std::unique_ptr<RecordReader> open(const std::vector<std::string>& wanted) const override {
    return std::make_unique<ChainedReader>(sources_, wanted);
  }
  FileContents contents() const override {
    FileContents all;
    for (const auto& source : sources_) {
      for (const auto& part : source->contents()) all.push_back(part);
    }
    return all;
  }
  std::string format() const override { return sources_.front()->format(); }
  const char* record_name() const override { return sources_.front()->record_name(); }
  std::vector<std::string> class_names(const std::string& field) const override {
    return sources_.front()->class_names(field);
  }

 private:
  Sources sources_;
};

}  // namespace

std::unique_ptr<RecordSource> delimited_source(const std::string& path, CsvDialect dialect) {
  return std::make_unique<DelimitedSource>(path, dialect);
}

std::unique_ptr<RecordSource> lines_source(const std::string& path) {
  return std::make_unique<LineSource>(path);
}

std::unique_ptr<RecordSource> chained_source(Sources sources) {
  return std::make_unique<ChainedSource>(std::move(sources));
}

}  // namespace accel
