// The comet tracker: an offline experiment that `comet upload` sends to Comet.
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "core/error.h"
#include "core/json_text.h"
#include "core/registry.h"
#include "core/tracker.h"
#include "runner/formats/mapped_file.h"
#include "runner/formats/png_writer.h"
#include "runner/formats/zip_store.h"
#include "runner/track/append_file.h"
#include "runner/track/config_value.h"
#include "runner/track/run_names.h"

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

/// `{"type":TYPE,"payload":{FIELDS}}`, a line of its own.
std::string message(const char* type, const std::string& fields) {
  return "{\"type\":\"" + std::string(type) + "\",\"payload\":{" + fields + "}}\n";
}

/// What JSON cannot hold, Comet has as texts.
std::string comet_number(double value) {
  const std::string text = python_json(value);
  return text == json_number(value) ? text : '"' + text + '"';
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
      "An offline experiment; `comet upload ZIP` sends it. Histograms are left out.";

  static Schema<CometOptions> schema() {
    return Schema<CometOptions>()
        .field("dir", &CometOptions::dir,
               "Where the archive is made. When not given: 'comet' in the run's folder.")
        .on_resume(Change::kFree)
        .field("project", &CometOptions::project, "Project that the run is uploaded to.")
        .on_resume(Change::kFree)
        .field("workspace", &CometOptions::workspace,
               "Owns the project; default: that of the one who uploads.")
        .on_resume(Change::kFree)
        .field("name", &CometOptions::name, "What Comet calls the run; default: the run's name.")
        .on_resume(Change::kFree)
        .field("tags", &CometOptions::tags, "Words to find the run by.")
        .on_resume(Change::kFree);
  }

  CometTracker(const CometOptions& options, const TrackerContext& context)
      : options_(options),
        dir_(options.dir.text.empty() ? context.run_dir + "/comet" : options.dir.text),
        start_ms_(milliseconds_since_1970()) {
    if (options_.name.empty()) options_.name = context.run_name;
    if (context.first_step > 0 && go_on(context.ids)) return;
    key_ = random_hex32();
    bytes_ = 0;
    file_ = std::make_unique<AppendFile>(messages_path());
    put(message("log_other", "\"key\":\"Name\",\"value\":" + json_text(options_.name)));
    if (!context.git.commit.empty()) put(git_message(context.git));
    file_->flush();
  }

  void config(const ConfigValues& values) override {
    for (const auto& [name, text] : values) {
      put(message("parameter_msg", local_time() + ",\"param\":{\"paramName\":" + json_text(name) +
                                       ",\"paramValue\":" + config_json(text) +
                                       ",\"step\":null,\"source\":\"manual\"}"));
    }
  }

  void log(int64_t step, std::span<const Measurement> values) override {
    for (const auto& [name, value] : values) {
      put(message("metric_msg", local_time() + ",\"metric\":{\"metricName\":" + json_text(name) +
                                    ",\"metricValue\":" + comet_number(value) +
                                    ",\"step\":" + std::to_string(step) + ",\"epoch\":null}"));
    }
  }

  void text(int64_t, const std::string& tag, const std::string& text) override {
    put(message("log_other", "\"key\":" + json_text(tag) + ",\"value\":" + json_text(text)));
  }

  void histogram(int64_t, const std::string&, std::span<const float>) override {}

  void image(int64_t step, const std::string& tag, const Picture& picture) override {
    const std::string asset = random_hex32(), member = asset + ".png";
    const std::string png =
        encode_png({picture.height, picture.width}, picture.channels, picture.pixels);
    replace_file(folder() + '/' + member, [&](AppendFile& file) { file.append(png); });
    put(message("file_upload",
                local_time() + ",\"file_path\":\"" + member +
                    "\",\"upload_type\":\"visualization\",\"additional_params\":{\"assetId\":\"" +
                    asset + "\",\"context\":null,\"extension\":\"png\",\"figName\":" +
                    json_text(tag) + ",\"fileName\":" + json_text(tag) +
                    ",\"overwrite\":false,\"step\":" + std::to_string(step) +
                    "},\"metadata\":{},\"clean\":true"));
  }

  void flush(Flush how) override { file_->flush(how); }

  /// Of an interrupted run too: it may never be resumed.
  void finish(RunStatus) override {
    file_->flush();
    const SharedBytes messages = map_file(messages_path());
    replace_file(dir_ + '/' + key_ + ".zip", [&](AppendFile& out) {
      ZipWriter zip([&](ByteSpan bytes) { out.append(as_text(bytes)); });
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
    return {
        {"key", key_}, {"bytes", std::to_string(bytes_)}, {"start_ms", std::to_string(start_ms_)}};
  }

 private:
  std::string folder() const { return dir_ + '/' + key_; }
  std::string messages_path() const { return folder() + "/messages.json"; }

  /// Takes up the experiment of a checkpoint, cut to what it held then. False when it is gone.
  bool go_on(const std::map<std::string, std::string>& ids) {
    if (!ids.contains("key") || !ids.contains("bytes") || !ids.contains("start_ms")) return false;
    key_ = ids.at("key");
    bytes_ = std::strtoull(ids.at("bytes").c_str(), nullptr, 10);
    start_ms_ = std::atoll(ids.at("start_ms").c_str());
    std::error_code error;
    const uint64_t size = fs::file_size(messages_path(), error);
    if (error || size < bytes_) return false;
    fs::resize_file(messages_path(), bytes_, error);
    if (error) return false;
    file_ = std::make_unique<AppendFile>(messages_path());
    return true;
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

  void put(const std::string& line) {
    bytes_ += line.size();
    file_->append(line);
  }

  CometOptions options_;
  std::string dir_;
  int64_t start_ms_;
  std::string key_;
  std::unique_ptr<AppendFile> file_;
  uint64_t bytes_ = 0;  ///< in messages.json once the buffer is written
};

const Register<CometTracker> comet_tracker;

}  // namespace
}  // namespace accel
