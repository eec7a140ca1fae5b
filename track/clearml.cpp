// The clearml tracker: an offline session for import by the clearml package.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/api/tracker.h"
#include "core/base/environment.h"
#include "core/base/files.h"
#include "core/base/json_text.h"
#include "core/base/mapped_file.h"
#include "core/recipe/registry.h"
#include "formats/archive/zip.h"
#include "track/resumable_file.h"
#include "track/run_names.h"
#include "track/tracker_folder.h"
#include "track/tracker_runs.h"
#include "track/values.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct ClearmlOptions {
  FilePath dir;
  std::string project = "accel-run";
  std::string name;
  std::vector<std::string> tags;
};

/// ClearML plots the series of a title together. As in Accelerate, "train/loss" has the title
/// "loss" and the series "train"; for other names the prefix before the first slash is the title.
std::pair<std::string, std::string> title_and_series(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return {name, name};
  std::string first = name.substr(0, slash), rest = name.substr(slash + 1);
  const bool split = first == "train" || first == "eval" || first == "test";
  return split ? std::pair(rest, first) : std::pair(first, rest);
}

constexpr std::string_view kOffline = "offline-";
constexpr size_t kTaskIdLength = kOffline.size() + 32;

class ClearmlTracker final : public Tracker {
 public:
  static constexpr auto kName = "clearml";
  static constexpr auto kSummary =
      "An offline session of ClearML; `Task.import_offline_session(ZIP)` uploads it. Without "
      "histograms and non-finite values.";

  static Schema<ClearmlOptions> schema() {
    return Schema<ClearmlOptions>()
        .field("dir", &ClearmlOptions::dir,
               "Folder of the archive; default: 'clearml' in the run's folder.")
        .on_resume(Change::kFree)
        .field("project", &ClearmlOptions::project, "Project of the imported task.")
        .on_resume(Change::kFree)
        .field("name", &ClearmlOptions::name, "Name of the task; default: the run's name.")
        .on_resume(Change::kFree)
        .field("tags", &ClearmlOptions::tags, "Tags of the task, to filter by.")
        .on_resume(Change::kFree);
  }

  ClearmlTracker(const ClearmlOptions& options, const TrackerContext& context)
      : options_(options),
        git_(context.git),
        dir_(options.dir.text.empty() ? context.run_dir + "/clearml" : options.dir.text) {
    if (options_.name.empty()) options_.name = context.run_name;
    const TrackedRun run = tracked_run(context, "task", kTaskIdLength);
    id_ = run.id;
    if (run.resumes && resume(context.ids)) return;
    if (run.resumes) id_ = replacing_id(run, context.first_step);
    if (!id_.starts_with(kOffline)) id_.insert(0, kOffline);
    std::error_code error;  // reported by metrics_
    // Of a process that was killed before its first checkpoint.
    fs::remove_all(session_folder(), error);
    make_tracker_folder(context, session_folder());
    metrics_.create(metrics_path());
    log_.create(log_path());
    metrics_.flush(Flush::kReadable);
  }

  void config(const ConfigValues& values) override { config_ = values; }

  void log(int64_t step, std::span<const Measurement> values) override {
    std::string line;
    for (const auto& [name, value] : values) {
      if (!std::isfinite(value)) continue;  // not valid JSON
      const auto [title, series] = title_and_series(name);
      line += (line.empty() ? "[" : ",") + event_start("training_stats_scalar");
      line += ",\"iter\":" + std::to_string(step) + ",\"metric\":" + json_text(title) +
              ",\"variant\":" + json_text(series) + ",\"value\":" + json_number(value) + "}";
    }
    if (!line.empty()) metrics_.append(line + "]\n");
  }

  void text(int64_t step, const std::string& tag, const std::string& text) override {
    log_.append(
        "[" + event_start("log") + ",\"level\":\"info\",\"worker\":" + json_text(host_name()) +
        ",\"iter\":" + std::to_string(step) + ",\"msg\":" + json_text(tag + ": " + text) + "}]\n");
  }

  void histogram(int64_t, const std::string&, std::span<const float>) override {}

  void image(int64_t step, const std::string& tag, const Picture& picture) override {
    const auto [title, series] = title_and_series(tag);
    // An import replaces the component with the task's name.
    const std::string key = safe_path(options_.project) + "/run." + id_ + "/metrics/" +
                            safe_path(tag) + '_' + std::to_string(step) + ".png";
    write_picture(session_folder(), data_folder() + '/' + key, picture);
    metrics_.append("[" + event_start("training_debug_image") +
                    ",\"iter\":" + std::to_string(step) + ",\"metric\":" + json_text(title) +
                    ",\"variant\":" + json_text(series) + ",\"key\":" + json_text(key) +
                    ",\"url\":" + json_text(fs::absolute(data_folder() + '/' + key).string()) +
                    "}]\n");
  }

  void flush(Flush how) override {
    metrics_.flush(how);
    log_.flush(how);
  }

  /// Also for an interrupted run: it may never be resumed.
  void finish(RunStatus) override {
    flush(Flush::kReadable);
    const SharedBytes metrics = map_file(metrics_path()), log = map_file(log_path());
    write_file_atomically(dir_ + '/' + id_ + ".zip", [&](const ByteSink& write) {
      ZipWriter zip(write);
      zip.add("task.json", as_bytes(task_json()));
      zip.add("metrics.jsonl", metrics.view);
      zip.add("log.jsonl", log.view);
      for (const std::string& file : pictures()) {
        zip.add("data/" + file, map_file(data_folder() + '/' + file).view);
      }
      zip.finish();
    });
  }

  std::map<std::string, std::string> ids() const override {
    return {{"task", id_},
            {"metrics_bytes", std::to_string(metrics_.bytes())},
            {"log_bytes", std::to_string(log_.bytes())}};
  }

 private:
  std::string session_folder() const { return dir_ + '/' + id_; }
  std::string metrics_path() const { return session_folder() + "/metrics.jsonl"; }
  std::string log_path() const { return session_folder() + "/log.jsonl"; }
  std::string data_folder() const { return session_folder() + "/data"; }

  /// Paths relative to the data folder, sorted.
  std::vector<std::string> pictures() const {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::recursive_directory_iterator entry(data_folder(), error), end; !error && entry != end;
         entry.increment(error)) {
      if (!entry->is_regular_file(error) || entry->path().extension() != ".png") continue;
      names.push_back(entry->path().lexically_relative(data_folder()).string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  /// Resumes the session of a checkpoint. False when its files are missing.
  bool resume(const TrackerIdMap& ids) {
    if (!ids.contains("metrics_bytes") || !ids.contains("log_bytes")) return false;
    return metrics_.resume(metrics_path(), id_number(ids, "metrics_bytes")) &&
           log_.resume(log_path(), id_number(ids, "log_bytes"));
  }

  std::string event_start(const char* type) const {
    return "{\"timestamp\":" + std::to_string(milliseconds_since_1970()) + ",\"type\":\"" + type +
           "\",\"task\":" + json_text(id_);
  }

  std::string task_json() const {
    std::string tags, options;
    for (const std::string& tag : options_.tags) tags += (tags.empty() ? "" : ",") + json_text(tag);
    for (const auto& [name, text] : config_) {
      options += (options.empty() ? "" : ",") + json_text(name) +
                 ":{\"section\":\"General\",\"name\":" + json_text(name) +
                 ",\"value\":" + json_text(text) + ",\"type\":\"\",\"description\":\"\"}";
    }
    std::string script;
    if (!git_.commit.empty()) {
      script = "\"repository\":" + json_text(git_.remote) +
               ",\"branch\":" + json_text(git_.branch) +
               ",\"version_num\":" + json_text(git_.commit);
    }
    std::string out = "{\"id\":" + json_text(id_) + ",\"name\":" + json_text(options_.name);
    out += ",\"type\":\"training\",\"project_name\":" + json_text(options_.project);
    out += ",\"tags\":[" + tags + "],\"offline_output_models\":[]";
    out += ",\"execution\":{\"artifacts\":[]},\"output\":{},\"script\":{" + script + "}";
    return out + ",\"hyperparams\":{\"General\":{" + options + "}},\"configuration\":{}}";
  }

  ClearmlOptions options_;
  GitState git_;
  std::string dir_;
  std::string id_;
  ConfigValues config_;
  ResumableFile metrics_, log_;
};

const Register<ClearmlTracker> clearml_tracker;

}  // namespace
}  // namespace accel
