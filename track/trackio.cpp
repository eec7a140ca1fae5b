// The trackio tracker: the SQLite database of a Trackio project.
#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/api/tracker.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "track/run_names.h"
#include "track/tracker_folder.h"
#include "track/tracker_runs.h"
#include "track/values.h"

namespace accel {
namespace {

using Json = nlohmann::json;

struct TrackioOptions {
  FilePath dir;
  std::string project = "accel-run";
  std::string name;
};

constexpr auto kTimeFormat = "%Y-%m-%dT%H:%M:%S+00:00";

/// Trackio adds its other tables and columns itself.
constexpr auto kTables =
    "CREATE TABLE IF NOT EXISTS metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT "
    "NULL, timestamp TEXT NOT NULL, run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT "
    "NOT NULL);"
    "CREATE TABLE IF NOT EXISTS configs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT "
    "NULL, run_name TEXT NOT NULL, config TEXT NOT NULL, created_at TEXT NOT NULL, "
    "UNIQUE(run_id));";

Rule<std::string> project_name() {
  return {[](const std::string& name) {
            return !name.empty() && name.size() <= 64 &&
                   std::all_of(name.begin(), name.end(), [](unsigned char c) {
                     return std::isalnum(c) || c == '_' || c == '-';
                   });
          },
          "at most 64 letters, digits, '_' or '-'", "\"pattern\": \"^[A-Za-z0-9_-]{1,64}$\""};
}

/// A SQLite database. Failures are IoErrors.
class TrackioDatabase {
 public:
  explicit TrackioDatabase(std::string path) : path_(std::move(path)) {
    if (::sqlite3_open(path_.c_str(), &handle_) != SQLITE_OK) {
      const std::string why = ::sqlite3_errmsg(handle_);
      ::sqlite3_close(handle_);
      throw IoError(accel::text("cannot open '{}': {}", path_, why));
    }
    constexpr int kBusyMs = 2000;  // while a dashboard reads
    ::sqlite3_busy_timeout(handle_, kBusyMs);
  }
  ~TrackioDatabase() { ::sqlite3_close(handle_); }
  TrackioDatabase(const TrackioDatabase&) = delete;
  TrackioDatabase& operator=(const TrackioDatabase&) = delete;

  void run(const char* statements) {
    check(::sqlite3_exec(handle_, statements, nullptr, nullptr, nullptr));
  }

  /// Runs one statement with its bound parameters.
  void run(const char* statement, const std::vector<std::string>& values) {
    sqlite3_stmt* prepared = nullptr;
    check(::sqlite3_prepare_v2(handle_, statement, -1, &prepared, nullptr));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owner(prepared, &sqlite3_finalize);
    bind(prepared, values);
    if (::sqlite3_step(prepared) != SQLITE_DONE) check(SQLITE_ERROR);
  }

  /// The texts that one statement with bound parameters finds.
  std::vector<std::string> texts(const char* statement, const std::vector<std::string>& values) {
    std::vector<std::string> found;
    sqlite3_stmt* prepared = nullptr;
    check(::sqlite3_prepare_v2(handle_, statement, -1, &prepared, nullptr));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> owner(prepared, &sqlite3_finalize);
    bind(prepared, values);
    int result = ::sqlite3_step(prepared);
    for (; result == SQLITE_ROW; result = ::sqlite3_step(prepared)) {
      const auto* text = reinterpret_cast<const char*>(::sqlite3_column_text(prepared, 0));
      found.emplace_back(text ? text : "");
    }
    if (result != SQLITE_DONE) check(SQLITE_ERROR);
    return found;
  }

  void roll_back() { ::sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr); }

 private:
  void bind(sqlite3_stmt* statement, const std::vector<std::string>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      check(::sqlite3_bind_text(statement, static_cast<int>(i) + 1, values[i].data(),
                                static_cast<int>(values[i].size()), SQLITE_STATIC));
    }
  }

  void check(int result) const {
    if (result == SQLITE_OK) return;
    throw IoError(accel::text("cannot write '{}': {}", path_, ::sqlite3_errmsg(handle_)));
  }

  std::string path_;
  sqlite3* handle_ = nullptr;
};

class TrackioTracker final : public Tracker {
 public:
  static constexpr auto kName = "trackio";
  static constexpr auto kSummary =
      "A run in a Trackio project; `TRACKIO_DIR=DIR trackio show` displays it.";

  static Schema<TrackioOptions> schema() {
    return Schema<TrackioOptions>()
        .field("dir", &TrackioOptions::dir,
               "Trackio's folder, which projects share; default: 'trackio' in the run's folder.")
        .on_resume(Change::kFree)
        .field("project", &TrackioOptions::project,
               "Project of the run; a dashboard shows the runs of a project together.",
               project_name())
        .on_resume(Change::kFree)
        .field("name", &TrackioOptions::name,
               "Name of the run; default: the run's name in accel-run.")
        .on_resume(Change::kFree);
  }

  TrackioTracker(const TrackioOptions& options, const TrackerContext& context)
      : dir_(options.dir.text.empty() ? context.run_dir + "/trackio" : options.dir.text),
        project_(options.project),
        name_(options.name.empty() ? context.run_name : options.name),
        git_(context.git) {
    make_tracker_folder(context, dir_);
    const TrackedRun run = tracked_run(context, "run_id");
    run_id_ = run.id;
    database_ = std::make_unique<TrackioDatabase>(dir_ + '/' + project_ + ".db");
    database_->run("PRAGMA journal_mode = WAL");
    database_->run(kTables);
    database_->run("DELETE FROM metrics WHERE run_id = ? AND step > CAST(? AS INTEGER)",
                   {run_id_, std::to_string(run.resumes ? context.first_step : -1)});
    first_step_ = context.first_step;
    for (const std::string& row : database_->texts(
             "SELECT metrics FROM metrics WHERE run_id = ? AND step = CAST(? AS INTEGER)",
             {run_id_, std::to_string(first_step_)})) {
      const Json values = Json::parse(row, nullptr, false);
      if (!values.is_object()) continue;
      for (const auto& [key, value] : values.items()) resumed_.insert(key);
    }
  }

  void config(const ConfigValues& values) override {
    std::string json = "{\"_Created\":" + json_text(utc_now(kTimeFormat));
    if (!git_.commit.empty()) json += ",\"_Commit\":" + json_text(git_.commit);
    for (const auto& [name, text] : values) json += ',' + json_text(name) + ':' + config_json(text);
    database_->run(
        "INSERT OR REPLACE INTO configs (run_id, run_name, config, created_at) VALUES (?, ?, ?, ?)",
        {run_id_, name_, json + '}', utc_now(kTimeFormat)});
  }

  void log(int64_t step, std::span<const Measurement> values) override {
    for (const auto& [name, value] : values) set(step, name, quoted_python_json(value));
  }

  void text(int64_t step, const std::string& tag, const std::string& text) override {
    set(step, tag, json_text(text));
  }

  void histogram(int64_t step, const std::string& tag, std::span<const float> values) override {
    const std::string json = histogram_json("trackio.histogram", values);
    if (!json.empty()) set(step, tag, json);
  }

  void image(int64_t step, const std::string& tag, const Picture& picture) override {
    const std::string path = project_ + '/' + safe_path(name_) + '/' + std::to_string(step) + '/' +
                             safe_path(tag) + ".png";
    write_picture(dir_, dir_ + "/media/" + path, picture);
    set(step, tag,
        "{\"_type\":\"trackio.image\",\"file_path\":" + json_text(path) + ",\"caption\":null}");
  }

  void flush(Flush how) override {
    if (how == Flush::kDurable) end_row();
    write_rows();
    if (how == Flush::kDurable) database_->run("PRAGMA wal_checkpoint(PASSIVE)");
  }

  void finish(RunStatus) override { flush(Flush::kDurable); }

  std::map<std::string, std::string> ids() const override { return {{"run_id", run_id_}}; }

 private:
  struct Row {
    int64_t step;
    std::string time;
    std::string json;
  };

  /// Collects the values of a step into one row.
  void set(int64_t step, const std::string& key, const std::string& json) {
    if (step == first_step_ && resumed_.contains(key)) return;
    if (step != step_) end_row();
    step_ = step;
    values_[key] = json;
  }

  void end_row() {
    if (values_.empty()) return;
    std::string json;
    for (const auto& [key, value] : values_) {
      json += (json.empty() ? "{" : ",") + json_text(key) + ':' + value;
    }
    values_.clear();
    rows_.push_back({step_, utc_now(kTimeFormat), json + '}'});
  }

  /// Writes all rows in one transaction; failed rows are retried with the next ones.
  void write_rows() {
    if (rows_.empty()) return;
    try {
      database_->run("BEGIN IMMEDIATE");
      for (const Row& row : rows_) {
        database_->run(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, "
            "CAST(? AS INTEGER), ?)",
            {run_id_, row.time, name_, std::to_string(row.step), row.json});
      }
      database_->run("COMMIT");
    } catch (const IoError&) {
      database_->roll_back();
      throw;
    }
    rows_.clear();
  }

  std::string dir_;
  std::string project_;
  std::string name_;
  GitState git_;
  std::string run_id_;
  std::unique_ptr<TrackioDatabase> database_;
  int64_t first_step_ = 0;
  std::set<std::string> resumed_;  ///< of first_step_, in the database: they may be logged again
  int64_t step_ = 0;
  std::map<std::string, std::string> values_;  ///< of step_, as JSON
  std::vector<Row> rows_;                      ///< not yet in the database
};

const Register<TrackioTracker> trackio_tracker;

}  // namespace
}  // namespace accel
