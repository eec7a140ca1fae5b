// The clearml tracker: an offline session that ClearML's package imports.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "core/host_name.h"
#include "core/json_text.h"
#include "core/registry.h"
#include "core/tracker.h"
#include "runner/formats/mapped_file.h"
#include "runner/formats/zip_store.h"
#include "runner/track/append_file.h"
#include "runner/track/picture_of.h"
#include "runner/track/run_names.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct ClearmlOptions {
  FilePath dir;
  std::string project = "accel-run";
  std::string name;
  std::vector<std::string> tags;
};

/// ClearML draws the series of a title into one plot: losses of training and evaluation share one,
/// as Accelerate has them. "train/loss" is the title "loss" and the series "train"; of other names
/// the part before the first slash is the title.
std::pair<std::string, std::string> title_and_series(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return {name, name};
  std::string first = name.substr(0, slash), rest = name.substr(slash + 1);
  const bool part = first == "train" || first == "eval" || first == "test";
  return part ? std::pair(rest, first) : std::pair(first, rest);
}

/// A file of lines that a resume cuts back to what a checkpoint knew of it.
class LineFile {
 public:
  void open(const std::string& path) {
    bytes_ = 0;
    file_ = std::make_unique<AppendFile>(path);
  }

  /// False when the file does not have so many bytes.
  bool go_on(const std::string& path, uint64_t bytes) {
    std::error_code error;
    const uint64_t size = fs::file_size(path, error);
    if (error || size < bytes) return false;
    fs::resize_file(path, bytes, error);
    if (error) return false;
    bytes_ = bytes;
    file_ = std::make_unique<AppendFile>(path);
    return true;
  }

  void put(const std::string& line) {
    file_->make_room();  // what it does not take has no place in the file
    bytes_ += line.size() + 1;
    file_->append(line + '\n');
  }

  void flush(Flush how) { file_->flush(how); }
  uint64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<AppendFile> file_;
  uint64_t bytes_ = 0;  ///< once the buffer is written
};

class ClearmlTracker final : public Tracker {
 public:
  static constexpr auto kName = "clearml";
  static constexpr auto kSummary =
      "An offline session of ClearML; `Task.import_offline_session(ZIP)` uploads it. Histograms "
      "and numbers that are not finite are left out.";

  static Schema<ClearmlOptions> schema() {
    return Schema<ClearmlOptions>()
        .field("dir", &ClearmlOptions::dir,
               "Where the archive is made. When not given: 'clearml' in the run's folder.")
        .on_resume(Change::kFree)
        .field("project", &ClearmlOptions::project, "Project that the task is imported into.")
        .on_resume(Change::kFree)
        .field("name", &ClearmlOptions::name,
               "What ClearML calls the task; default: the run's name.")
        .on_resume(Change::kFree)
        .field("tags", &ClearmlOptions::tags, "Words to find the task by.")
        .on_resume(Change::kFree);
  }

  ClearmlTracker(const ClearmlOptions& options, const TrackerContext& context)
      : options_(options),
        git_(context.git),
        dir_(options.dir.text.empty() ? context.run_dir + "/clearml" : options.dir.text) {
    if (options_.name.empty()) options_.name = context.run_name;
    if (context.first_step > 0 && go_on(context.ids)) return;
    id_ = "offline-" + random_hex32();
    metrics_.open(metrics_path());
    log_.open(log_path());
    metrics_.flush(Flush::kReadable);
  }

  void config(const ConfigValues& values) override { config_ = values; }

  void log(int64_t step, std::span<const Measurement> values) override {
    std::string line;
    for (const auto& [name, value] : values) {
      if (!std::isfinite(value)) continue;  // the server takes JSON
      const auto [title, series] = title_and_series(name);
      line += (line.empty() ? "[" : ",") + event_start("training_stats_scalar");
      line += ",\"iter\":" + std::to_string(step) + ",\"metric\":" + json_text(title) +
              ",\"variant\":" + json_text(series) + ",\"value\":" + json_number(value) + "}";
    }
    if (!line.empty()) metrics_.put(line + "]");
  }

  void text(int64_t step, const std::string& tag, const std::string& text) override {
    log_.put("[" + event_start("log") + ",\"level\":\"info\",\"worker\":" + json_text(host_name()) +
             ",\"iter\":" + std::to_string(step) + ",\"msg\":" + json_text(tag + ": " + text) +
             "}]");
  }

  void histogram(int64_t, const std::string&, std::span<const float>) override {}

  void image(int64_t step, const std::string& tag, const Picture& picture) override {
    const auto [title, series] = title_and_series(tag);
    // The part with the task's own name is what an import puts its new name into.
    const std::string key = safe_path(options_.project) + "/run." + id_ + "/metrics/" +
                            safe_path(tag) + '_' + std::to_string(step) + ".png";
    write_picture(data_folder() + '/' + key, picture);
    metrics_.put("[" + event_start("training_debug_image") + ",\"iter\":" + std::to_string(step) +
                 ",\"metric\":" + json_text(title) + ",\"variant\":" + json_text(series) +
                 ",\"key\":" + json_text(key) +
                 ",\"url\":" + json_text(fs::absolute(data_folder() + '/' + key).string()) + "}]");
  }

  void flush(Flush how) override {
    metrics_.flush(how);
    log_.flush(how);
  }

  /// Of an interrupted run too: it may never be resumed.
  void finish(RunStatus) override {
    flush(Flush::kReadable);
    const SharedBytes metrics = map_file(metrics_path()), log = map_file(log_path());
    replace_file(dir_ + '/' + id_ + ".zip", [&](AppendFile& out) {
      ZipWriter zip([&](ByteSpan bytes) { out.append(as_text(bytes)); });
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
  std::string metrics_path() const { return dir_ + '/' + id_ + "/metrics.jsonl"; }
  std::string log_path() const { return dir_ + '/' + id_ + "/log.jsonl"; }

  std::string data_folder() const { return dir_ + '/' + id_ + "/data"; }

  /// Their names in the folder of data, in order.
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

  /// Takes up the session of a checkpoint, cut to what it held then. False when it is gone.
  bool go_on(const std::map<std::string, std::string>& ids) {
    for (const char* key : {"task", "metrics_bytes", "log_bytes"}) {
      if (!ids.contains(key)) return false;
    }
    id_ = ids.at("task");
    const auto bytes = [&](const char* key) {
      return std::strtoull(ids.at(key).c_str(), nullptr, 10);
    };
    return metrics_.go_on(metrics_path(), bytes("metrics_bytes")) &&
           log_.go_on(log_path(), bytes("log_bytes"));
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
  LineFile metrics_, log_;
};

const Register<ClearmlTracker> clearml_tracker;

}  // namespace
}  // namespace accel
