// The comet tracker: an offline experiment for `comet upload`.
#include <filesystem>

#include "core/api/tracker.h"
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

struct CometOptions {
  FilePath dir;
  std::string project = "accel-run";
  std::string workspace;
  std::string name;
  std::vector<std::string> tags;
};

/// A line `{"type":TYPE,"payload":{FIELDS}}`.
std::string message(const char* type, const std::string& fields) {
  return "{\"type\":\"" + std::string(type) + "\",\"payload\":{" + fields + "}}\n";
}

std::string text_or_null(const std::string& text) {
  return text.empty() ? "null" : json_text(text);
}

std::string local_time() {
  return "\"local_timestamp\":" + std::to_string(milliseconds_since_1970());
}

class CometTracker final : public Tracker {
 public:
  static constexpr auto kName = "comet";
  static constexpr auto kSummary =
      "An offline experiment of Comet; `comet upload ZIP` uploads it. Without histograms.";

  static Schema<CometOptions> schema() {
    return Schema<CometOptions>()
        .field("dir", &CometOptions::dir,
               "Folder of the archive; default: 'comet' in the run's folder.")
        .on_resume(Change::kFree)
        .field("project", &CometOptions::project, "Project of the uploaded run.")
        .on_resume(Change::kFree)
        .field("workspace", &CometOptions::workspace,
               "Workspace of the project; default: that of the uploading user.")
        .on_resume(Change::kFree)
        .field("name", &CometOptions::name,
               "Name of the run; default: the run's name in accel-run.")
        .on_resume(Change::kFree)
        .field("tags", &CometOptions::tags, "Tags of the run, to filter by.")
        .on_resume(Change::kFree);
  }

  CometTracker(const CometOptions& options, const TrackerContext& context)
      : options_(options),
        dir_(options.dir.text.empty() ? context.run_dir + "/comet" : options.dir.text),
        start_ms_(0) {
    if (options_.name.empty()) options_.name = context.run_name;
    const TrackedRun run = tracked_run(context, "key");
    key_ = run.id;
    if (run.resumes && resume(context.ids)) return;
    if (run.resumes) key_ = replacing_id(run, context.first_step);
    start_ms_ = run.start_ms;
    std::error_code error;            // reported by file_
    fs::remove_all(folder(), error);  // of a process that was killed before its first checkpoint
    make_tracker_folder(context, folder());
    file_.create(messages_path());
    file_.append(message("log_other", "\"key\":\"Name\",\"value\":" + json_text(options_.name)));
    if (!context.git.commit.empty()) file_.append(git_message(context.git));
    file_.flush(Flush::kReadable);
  }

  void config(const ConfigValues& values) override {
    for (const auto& [name, text] : values) {
      file_.append(message("parameter_msg", local_time() +
                                                ",\"param\":{\"paramName\":" + json_text(name) +
                                                ",\"paramValue\":" + config_json(text) +
                                                ",\"step\":null,\"source\":\"manual\"}"));
    }
  }

  void log(int64_t step, std::span<const Measurement> values) override {
    for (const auto& [name, value] : values) {
      file_.append(
          message("metric_msg", local_time() + ",\"metric\":{\"metricName\":" + json_text(name) +
                                    ",\"metricValue\":" + quoted_python_json(value) +
                                    ",\"step\":" + std::to_string(step) + ",\"epoch\":null}"));
    }
  }

  void text(int64_t, const std::string& tag, const std::string& text) override {
    file_.append(
        message("log_other", "\"key\":" + json_text(tag) + ",\"value\":" + json_text(text)));
  }

  void histogram(int64_t, const std::string&, std::span<const float>) override {}

  void image(int64_t step, const std::string& tag, const Picture& picture) override {
    const std::string asset = random_hex32(), member = asset + ".png";
    write_picture(folder(), folder() + '/' + member, picture);
    file_.append(message(
        "file_upload",
        local_time() + ",\"file_path\":\"" + member +
            "\",\"upload_type\":\"visualization\",\"additional_params\":{\"assetId\":\"" + asset +
            "\",\"context\":null,\"extension\":\"png\",\"figName\":" + json_text(tag) +
            ",\"fileName\":" + json_text(tag) + ",\"overwrite\":false,\"step\":" +
            std::to_string(step) + "},\"metadata\":{},\"clean\":true"));
  }

  void flush(Flush how) override { file_.flush(how); }

  /// Also for an interrupted run: it may never be resumed.
  void finish(RunStatus) override {
    file_.flush(Flush::kReadable);
    const SharedBytes messages = map_file(messages_path());
    write_file_atomically(dir_ + '/' + key_ + ".zip", [&](const ByteSink& write) {
      ZipWriter zip(write);
      zip.add("experiment.json", as_bytes(experiment_json()));
      zip.add("messages.json", messages.view);
      for (const auto& entry : fs::directory_iterator(folder())) {
        if (entry.path().extension() != ".png") continue;
        const SharedBytes image = map_file(entry.path().string());
        zip.add(entry.path().filename().string(), image.view);
      }
      zip.finish();
    });
  }

  std::map<std::string, std::string> ids() const override {
    return {{"key", key_},
            {"bytes", std::to_string(file_.bytes())},
            {"start_ms", std::to_string(start_ms_)}};
  }

 private:
  std::string folder() const { return dir_ + '/' + key_; }
  std::string messages_path() const { return folder() + "/messages.json"; }

  /// Resumes the experiment of a checkpoint. False when its file is missing.
  bool resume(const TrackerIdMap& ids) {
    if (!ids.contains("bytes") || !ids.contains("start_ms")) return false;
    start_ms_ = static_cast<int64_t>(id_number(ids, "start_ms"));
    return file_.resume(messages_path(), id_number(ids, "bytes"));
  }

  static std::string git_message(const GitState& git) {
    return message("git_metadata", "\"git_metadata\":{\"user\":null,\"root\":null,\"branch\":" +
                                       text_or_null(git.branch) +
                                       ",\"parent\":" + json_text(git.commit) +
                                       ",\"origin\":" + text_or_null(git.remote) + '}');
  }

  std::string experiment_json() const {
    std::string tags;
    for (const std::string& tag : options_.tags) tags += (tags.empty() ? "" : ",") + json_text(tag);
    return "{\"offline_id\":\"" + key_ + "\",\"project_name\":" + json_text(options_.project) +
           ",\"workspace\":" + text_or_null(options_.workspace) +
           ",\"start_time\":" + std::to_string(start_ms_) +
           ",\"stop_time\":" + std::to_string(milliseconds_since_1970()) + ",\"tags\":[" + tags +
           "],\"resume_strategy\":\"create\",\"mode\":\"create\"}";
  }

  CometOptions options_;
  std::string dir_;
  int64_t start_ms_;
  std::string key_;
  ResumableFile file_;  ///< messages.json
};

const Register<CometTracker> comet_tracker;

}  // namespace
}  // namespace accel
