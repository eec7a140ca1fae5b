// The csv tracker: one wide table that spreadsheets and data frames open as it is.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/registry.h"
#include "core/tracker.h"
#include "runner/formats/csv.h"
#include "runner/track/append_file.h"
#include "runner/track/csv_text.h"
#include "runner/track/rewind.h"

namespace accel {
namespace {

constexpr auto kStepColumn = "step";

struct CsvTrackerOptions {
  FilePath path;
};

std::optional<int64_t> step_of_csv_line(std::string_view line) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  const bool whole = end == line.data() + line.size() || *end == ',';
  if (error == std::errc() && whole) return step;
  if (line.starts_with(kStepColumn)) return std::numeric_limits<int64_t>::min();  // the header
  return std::nullopt;
}

class CsvTracker final : public Tracker {
 public:
  static constexpr auto kName = "csv";
  static constexpr auto kSummary =
      "A table with a row per logged step and a column per name; texts, histograms "
      "and images are left out.";

  static Schema<CsvTrackerOptions> schema() {
    return Schema<CsvTrackerOptions>()
        .field("path", &CsvTrackerOptions::path,
               "The table. When not given: metrics.csv in the run's folder.")
        .on_resume(Change::kFree);
  }

  CsvTracker(const CsvTrackerOptions& options, const TrackerContext& context)
      : path_(options.path.text.empty() ? context.run_dir + "/metrics.csv" : options.path.text) {
    refuse_foreign_file();
    // In the run's own folder it is what an earlier life of the run left.
    if (context.first_step == 0 && !options.path.text.empty()) put_aside();
    constexpr int64_t kBeforeTheHeader = std::numeric_limits<int64_t>::min();
    rewind_lines(path_, context.first_step > 0 ? context.first_step : kBeforeTheHeader,
                 &step_of_csv_line);
    columns_ = header();
    written_columns_ = columns_.size();
    file_ = std::make_unique<AppendFile>(path_);
  }

  void config(const ConfigValues&) override {}

  void log(int64_t step, std::span<const Measurement> values) override {
    if (step != row_step_) write_row();
    row_step_ = step;
    for (const auto& [name, value] : values) {
      const size_t column = column_of(name);
      row_.resize(std::max(row_.size(), column + 1));
      row_[column] = csv_number(value);
    }
  }

  void text(int64_t, const std::string&, const std::string&) override {}
  void histogram(int64_t, const std::string&, std::span<const float>) override {}

  void image(int64_t, const std::string&, const Picture&) override {}

  void flush(Flush how) override {
    if (how == Flush::kDurable) write_row();  // else more of the step may come
    file_->flush(how);
  }

  void finish(RunStatus) override { flush(Flush::kDurable); }
  std::map<std::string, std::string> ids() const override { return {}; }

 private:
  /// The columns the table has already.
  std::vector<std::string> header() const {
    std::ifstream in(path_, std::ios::binary);
    std::string line;
    std::getline(in, line);
    std::vector<std::string_view> fields;
    CsvReader(std::as_bytes(std::span(line)), {}, path_).next(fields);
    return {fields.begin(), fields.end()};
  }

  void refuse_foreign_file() const {
    std::error_code error;
    const auto type = std::filesystem::status(path_, error).type();
    if (type == std::filesystem::file_type::not_found) return;
    constexpr auto kHint = "give the csv tracker another 'path'";
    if (type != std::filesystem::file_type::regular) {
      throw IoError("'" + path_ + "' exists and is no file", kHint);
    }
    if (std::filesystem::file_size(path_, error) == 0) return;
    const std::vector<std::string> columns = header();
    if (!columns.empty() && columns[0] == kStepColumn) return;
    throw IoError("'" + path_ + "' exists and is no table of metrics: its first column is '" +
                      (columns.empty() ? "" : columns[0]) + "', not '" + kStepColumn + "'",
                  kHint);
  }

  /// Another run's table is not thrown away for being in the way.
  void put_aside() const {
    std::error_code error;
    if (std::filesystem::file_size(path_, error) == 0 || error) return;
    std::string aside;
    for (int i = 1; aside.empty() || std::filesystem::exists(aside, error); ++i) {
      aside = path_ + "." + std::to_string(i);
    }
    std::filesystem::rename(path_, aside, error);
    if (error) throw IoError("cannot rename '" + path_ + "': " + error.message());
    warn("the csv tracker begins '" + path_ + "' anew; what was there is in '" + aside + "'");
  }

  size_t column_of(const std::string& name) {
    if (columns_.empty()) columns_.push_back(kStepColumn);
    const auto found = std::find(columns_.begin(), columns_.end(), name);
    const auto column = static_cast<size_t>(found - columns_.begin());
    if (column == columns_.size()) columns_.push_back(name);
    return column;
  }

  /// Appends the row that log() collected, if there is one.
  void write_row() {
    if (row_.empty()) return;
    if (columns_.size() > written_columns_) widen();
    row_.resize(columns_.size());
    row_[0] = std::to_string(row_step_);
    std::string line = csv_line(row_);
    row_.clear();
    file_->append(line);
  }

  /// Rewrites the table under a header that has the new columns too.
  void widen() {
    file_->flush();
    const std::string padding(columns_.size() - written_columns_, ',');
    replace_file(path_, [&](AppendFile& wider) {
      wider.append(csv_line(columns_));
      std::ifstream old(path_, std::ios::binary);
      std::string line;
      std::getline(old, line);  // the old header
      while (std::getline(old, line)) wider.append(line + padding + '\n');
    });
    written_columns_ = columns_.size();
    file_ = std::make_unique<AppendFile>(path_);
  }

  std::string path_;
  std::vector<std::string> columns_;
  size_t written_columns_ = 0;  ///< those the file's header has
  std::unique_ptr<AppendFile> file_;
  int64_t row_step_ = 0;
  std::vector<std::string> row_;  ///< collected for row_step_; empty: nothing
};

const Register<CsvTracker> csv_tracker;

}  // namespace
}  // namespace accel
