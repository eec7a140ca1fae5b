// The csv tracker: one wide table for spreadsheets and data frames.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "core/api/tracker.h"
#include "core/base/append_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "formats/records/csv.h"
#include "track/resumable_file.h"
#include "track/tracker_folder.h"
#include "track/tracker_runs.h"
#include "track/values.h"

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
      "A table with a row per logged step and a column per metric; without texts, histograms "
      "and images.";

  static Schema<CsvTrackerOptions> schema() {
    return Schema<CsvTrackerOptions>()
        .field("path", &CsvTrackerOptions::path,
               "Path of the table; default: metrics.csv in the run's folder. The file of another "
               "run is "
               "renamed to PATH.1, PATH.2 and so on.")
        .on_resume(Change::kFree);
  }

  CsvTracker(const CsvTrackerOptions& options, const TrackerContext& context)
      : path_(options.path.text.empty() ? context.run_dir + "/metrics.csv" : options.path.text) {
    check_existing_file();
    // In the run's folder, or opened before, it is a table of the same run.
    const bool own = options.path.text.empty() || run_exists(context);
    if (context.first_step == 0 && !own) back_up();
    constexpr int64_t kBeforeTheHeader = std::numeric_limits<int64_t>::min();
    first_step_ = context.first_step;
    rewind_lines(path_, context.first_step > 0 ? context.first_step : kBeforeTheHeader,
                 &step_of_csv_line);
    columns_ = header();
    written_columns_ = columns_.size();
    if (first_step_ > 0) resumed_row_ = row_of_first_step();
    make_tracker_folder(context, folder_of(path_));
    file_ = std::make_unique<AppendFile>(path_);
  }

  void config(const ConfigValues&) override {}

  void log(int64_t step, std::span<const Measurement> values) override {
    if (step != row_step_) write_row();
    row_step_ = step;
    if (row_.empty() && step == first_step_) row_ = resumed_row_;
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
    if (how == Flush::kDurable) write_row();  // otherwise more values of the step may follow
    file_->flush(how);
  }

  void finish(RunStatus) override { flush(Flush::kDurable); }
  std::map<std::string, std::string> ids() const override { return {}; }

 private:
  /// The columns of the existing table.
  std::vector<std::string> header() const {
    std::ifstream in(path_, std::ios::binary);
    std::string line;
    std::getline(in, line);
    std::vector<std::string_view> fields;
    CsvReader(std::as_bytes(std::span(line)), {}, path_).next(fields);
    return {fields.begin(), fields.end()};
  }

  void check_existing_file() const {
    std::error_code error;
    const auto type = std::filesystem::status(path_, error).type();
    if (type == std::filesystem::file_type::not_found) return;
    constexpr auto kHint = "set another 'path' for the csv tracker";
    if (type != std::filesystem::file_type::regular) {
      throw IoError(accel::text("'{}' exists and is not a regular file", path_), kHint);
    }
    if (std::filesystem::file_size(path_, error) == 0) return;
    const std::vector<std::string> columns = header();
    if (!columns.empty() && columns[0] == kStepColumn) return;
    throw IoError(accel::text("'{}' exists and is not a metrics table: its first column is '{}', "
                              "'{}' wanted",
                              path_, columns.empty() ? "" : columns[0], kStepColumn),
                  kHint);
  }

  /// Renames the table of another run instead of overwriting it.
  void back_up() const {
    std::error_code error;
    if (std::filesystem::file_size(path_, error) == 0 || error) return;
    std::string backup;
    for (int i = 1; backup.empty() || std::filesystem::exists(backup, error); ++i) {
      backup = path_ + "." + std::to_string(i);
    }
    publish_file(path_, backup);
    warn(
        accel::text("the csv tracker starts a new '{}'; the old table is now '{}'", path_, backup));
  }

  size_t column_of(const std::string& name) {
    if (columns_.empty()) columns_.push_back(kStepColumn);
    const auto found = std::find(columns_.begin(), columns_.end(), name);
    const auto column = static_cast<size_t>(found - columns_.begin());
    if (column == columns_.size()) columns_.push_back(name);
    return column;
  }

  /// Appends the pending row, if any.
  void write_row() {
    if (row_.empty()) return;
    if (columns_.size() > written_columns_) add_columns();
    row_.resize(columns_.size());
    row_[0] = std::to_string(row_step_);
    if (row_step_ == first_step_ && !resumed_row_.empty()) drop_resumed_row();
    std::string line = csv_line(row_);
    row_.clear();
    file_->append(line);
  }

  /// Rewrites the table with the new columns.
  void add_columns() {
    const std::string padding(columns_.size() - written_columns_, ',');
    rewrite([&](const std::string& line) { return line + padding + '\n'; });
    written_columns_ = columns_.size();
  }

  /// The values of the step from which the run resumes, which an evaluation after the checkpoint
  /// completes: it is made again by each process that resumes there.
  std::vector<std::string> row_of_first_step() const {
    std::vector<std::string> row;
    std::ifstream in(path_, std::ios::binary);
    for (std::string line; std::getline(in, line);) {
      if (step_of_csv_line(line) != first_step_) continue;
      std::vector<std::string_view> fields;
      CsvReader(std::as_bytes(std::span(line)), {}, path_).next(fields);
      row.resize(std::max(row.size(), fields.size()));
      for (size_t i = 0; i < fields.size(); ++i) {
        if (!fields[i].empty()) row[i] = fields[i];
      }
    }
    return row;
  }

  /// The row that replaces it has all of its values.
  void drop_resumed_row() {
    rewrite([&](const std::string& line) {
      return step_of_csv_line(line) == first_step_ ? "" : line + '\n';
    });
    resumed_row_.clear();
  }

  /// Replaces the header and each line.
  void rewrite(const std::function<std::string(const std::string& line)>& replaced) {
    file_->flush();
    write_file_atomically(path_, [&](const ByteSink& write) {
      write(as_bytes(csv_line(columns_)));
      std::ifstream old(path_, std::ios::binary);
      std::string line;
      std::getline(old, line);  // the old header
      while (std::getline(old, line)) write(as_bytes(replaced(line)));
    });
    file_ = std::make_unique<AppendFile>(path_);
  }

  std::string path_;
  std::vector<std::string> columns_;
  size_t written_columns_ = 0;  ///< in the file's header
  std::unique_ptr<AppendFile> file_;
  int64_t first_step_ = 0;
  std::vector<std::string> resumed_row_;  ///< in the file, of first_step_
  int64_t row_step_ = 0;
  std::vector<std::string> row_;  ///< pending values of row_step_
};

const Register<CsvTracker> csv_tracker;

}  // namespace
}  // namespace accel
