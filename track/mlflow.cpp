// The mlflow tracker: a run in MLflow's file store, one small text file per entity, or on a server.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "core/api/tracker.h"
#include "core/base/drafts.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/folders.h"
#include "core/base/json_text.h"
#include "core/base/regex.h"
#include "core/base/text.h"
#include "core/base/url.h"
#include "core/recipe/registry.h"
#include "formats/base64.h"
#include "formats/checksum.h"
#include "formats/image/image.h"
#include "track/mlflow_sink.h"
#include "track/resumable_file.h"
#include "track/run_names.h"
#include "track/tracker_folder.h"
#include "track/tracker_runs.h"
#include "track/values.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr int kRunning = 1, kFinished = 3, kFailed = 4;

/// A quoted YAML string; control characters become spaces.
std::string yaml_text(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '\'';
}

/// "1700000000000 0.5 12": time, value, step.
std::optional<int64_t> step_of_metric_line(std::string_view line) {
  const size_t blank = line.rfind(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  int64_t step = 0;
  const char* last = line.data() + line.size();
  const auto [end, error] = std::from_chars(line.data() + blank + 1, last, step);
  if (error != std::errc() || end != last) return std::nullopt;
  return step;
}

bool is_named(const fs::path& meta, const std::string& name) {
  std::ifstream in(meta);
  for (std::string line; std::getline(in, line);) {
    if (line == "name: " + name || line == "name: " + yaml_text(name)) return true;
  }
  return false;
}

class MlflowFiles final : public MlflowSink {
 public:
  MlflowFiles(std::string folder, MlflowRun run, const TrackerContext& context)
      : folder_(std::move(folder)),
        run_(std::move(run)),
        draft_(folder_ + "/.trash/" + random_name(16, "0123456789abcdef")),
        files_(folder_),
        first_step_(context.first_step) {
    make_tracker_folder(context, folder_);
    make_folder_within(folder_, folder_ + "/.trash");
    experiment_ = find_experiment();
    open_run(context);
    for (const char* folder : {"/metrics", "/params", "/tags", "/artifacts"}) {
      make_folder_within(folder_, run_folder() + folder);
    }
    remove_drafts(run_folder());  // MLflow takes every file for a metric, parameter or tag
    for (const auto& entry : fs::recursive_directory_iterator(run_folder() + "/metrics")) {
      rewind_lines(entry.path().string(), context.first_step, &step_of_metric_line, draft_);
      std::error_code error;  // MLflow rejects a run with an empty metric file
      if (fs::file_size(entry.path(), error) == 0 && !error) fs::remove(entry.path(), error);
    }
    run_.tags["mlflow.runName"] = run_.name;
    run_.tags["mlflow.user"] = run_.user;
    for (const auto& [key, value] : run_.tags) tag(0, key, value);
    write_meta(kRunning, 0);
  }

  void param(int64_t, const std::string& key, const std::string& value) override {
    write_file(run_folder() + "/params/" + key, value);
  }

  void metrics(int64_t step, int64_t time_ms, std::span<const Measurement> values) override {
    for (const auto& [key, value] : values) {
      const std::string file = run_folder() + "/metrics/" + key;
      if (step == first_step_ && ends_with_step(file, step, &step_of_metric_line)) continue;
      files_.at(file).append(std::to_string(time_ms) + ' ' + python_number(value) + ' ' +
                             std::to_string(step) + '\n');
    }
    files_.flush(Flush::kReadable);  // MLflow rejects a run with an empty metric file
  }

  void tag(int64_t, const std::string& key, const std::string& value) override {
    write_file(run_folder() + "/tags/" + key, value);
  }

  void artifact(int64_t, const std::string& path, std::string_view bytes) override {
    write_file(run_folder() + "/artifacts/" + path, bytes);
  }

  void flush(Flush how) override { files_.flush(how); }

  void end(RunStatus status, int64_t time_ms) override {
    if (status == RunStatus::kInterrupted) return;  // it can be resumed
    write_meta(status == RunStatus::kFinished ? kFinished : kFailed, time_ms);
  }

  std::map<std::string, std::string> ids() const override {
    return {{"run_id", run_id_}, {"start_ms", std::to_string(run_.start_ms)}};
  }
  RemoteTracker* remote() override { return nullptr; }

 private:
  /// The draft is outside the run, because MLflow's client reads every file there as a metric,
  /// parameter or tag, and fails for one that disappears.
  void write_file(const std::string& path, std::string_view content) const {
    make_folder_within(folder_, folder_of(path));
    write_file_atomically(draft_, content);
    publish_file(draft_, path);
  }
  std::string run_folder() const { return folder_ + '/' + experiment_ + '/' + run_id_; }

  void open_run(const TrackerContext& context) {
    const TrackedRun run = tracked_run(context, "run_id");
    run_id_ = run.id;
    run_.start_ms = run.start_ms;
    if (!run.resumes) {
      fs::remove_all(run_folder());  // of a process that was killed before its first checkpoint
    } else if (!fs::is_directory(run_folder())) {
      run_id_ = replacing_id(run, context.first_step);
      fs::remove_all(run_folder());
    } else if (context.ids.contains("start_ms")) {
      run_.start_ms = static_cast<int64_t>(id_number(context.ids, "start_ms"));
    }
  }

  /// For Python's float().
  static std::string python_number(double value) {
    const std::string text = python_json(value);
    return text == "NaN" ? "nan" : text == "Infinity" ? "inf" : text == "-Infinity" ? "-inf" : text;
  }

  /// The id of the experiment, created when its name is new.
  std::string find_experiment() const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (is_named(entry.path() / "meta.yaml", run_.experiment)) {
        return entry.path().filename().string();
      }
    }
    const std::string id = random_name(1, "123456789") + random_name(17, "0123456789");
    const std::string time = std::to_string(run_.start_ms);
    write_file(folder_ + '/' + id + "/meta.yaml",
               "artifact_location: " + yaml_text(folder_ + '/' + id) + "\ncreation_time: " + time +
                   "\nexperiment_id: '" + id + "'\nlast_update_time: " + time +
                   "\nlifecycle_stage: active\nname: " + yaml_text(run_.experiment) + '\n');
    return id;
  }

  void write_meta(int status, int64_t end_ms) {
    write_file(run_folder() + "/meta.yaml",
               "artifact_uri: " + yaml_text(run_folder() + "/artifacts") +
                   "\nend_time: " + (end_ms > 0 ? std::to_string(end_ms) : "null") +
                   "\nentry_point_name: ''\nexperiment_id: '" + experiment_ +
                   "'\nlifecycle_stage: active\nrun_id: '" + run_id_ +
                   "'\nrun_name: " + yaml_text(run_.name) + "\nrun_uuid: '" + run_id_ +
                   "'\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: " +
                   std::to_string(run_.start_ms) + "\nstatus: " + std::to_string(status) +
                   "\ntags: []\nuser_id: " + yaml_text(run_.user) + '\n');
  }

  std::string folder_;
  MlflowRun run_;
  std::string experiment_;
  std::string run_id_;
  std::string draft_;  ///< of the file that is being written
  MetricFiles files_;
  int64_t first_step_;  ///< evaluated again by each process that resumes there
};

constexpr size_t kLongestParam = 6000;
constexpr size_t kLongestTag = 8000;
constexpr size_t kLongestKey = 250;

struct MlflowOptions {
  std::string uri;
  FilePath dir;
  std::string experiment = "accel-run";
  std::string name;
  std::string notes;
};

std::string environment(const char* name) {
  return environment_variable(name).value_or("");
}

bool is_server(const std::string& uri) {
  return uri.starts_with("http://") || uri.starts_with("https://");
}

Rule<std::string> server_address() {
  return {[](const std::string& uri) {
            const size_t host = uri.find("//") + 2;
            return uri.empty() ||
                   (is_server(uri) && host < uri.size() && uri.find_first_of(":/", host) != host &&
                    uri.find('@') == std::string::npos &&
                    uri.find_first_of(" \t\r\n") == std::string::npos);
          },
          "the http:// or https:// address of a server, without a password", ""};
}

/// The default destination, from MLFLOW_TRACKING_URI.
MlflowOptions with_environment(MlflowOptions options) {
  if (!options.uri.empty() || !options.dir.text.empty()) return options;
  const std::string uri = environment("MLFLOW_TRACKING_URI");
  constexpr std::string_view kFile = "file://";
  if (is_server(uri) && without_passwords(uri) != uri) {
    throw Error(
        ExitCode::kRecipe,
        text("MLFLOW_TRACKING_URI is '{}' with a user name or password", printable_url(uri)),
        "the address is recorded with the run: set MLFLOW_TRACKING_USERNAME and "
        "MLFLOW_TRACKING_PASSWORD instead");
  }
  if (is_server(uri)) {
    options.uri = uri;
  } else if (uri.starts_with(kFile)) {
    options.dir.text = uri.substr(kFile.size());
  } else if (uri.find(':') == std::string::npos) {
    options.dir.text = uri;
  } else {
    throw Error(
        ExitCode::kRecipe,
        text("MLFLOW_TRACKING_URI is '{}', which the tracker 'mlflow' does not support", uri),
        "set it to an http:// address or a folder, or set 'uri' or 'dir' of the tracker");
  }
  return options;
}

std::string first_characters(const std::string& text, size_t count) {
  return valid_utf8(std::string_view(text).substr(0, count));
}

std::unique_ptr<MlflowSink> sink_for(const MlflowOptions& options, const TrackerContext& context) {
  MlflowRun run;
  run.experiment = options.experiment;
  run.name = options.name.empty() ? context.run_name : options.name;
  run.user = environment("USER");
  run.start_ms = milliseconds_since_1970();
  run.tags = {{"mlflow.source.name", "accel-run"}, {"mlflow.source.type", "LOCAL"}};
  const std::pair<const char*, std::string> tags[] = {
      {"mlflow.source.git.commit", context.git.commit},
      {"mlflow.source.git.branch", context.git.branch},
      {"mlflow.source.git.repoURL", context.git.remote},
      {"mlflow.note.content", first_characters(options.notes, kLongestTag)}};
  for (const auto& [key, value] : tags) {
    if (!value.empty()) run.tags[key] = value;
  }
  if (options.uri.empty()) {
    const std::string folder =
        options.dir.text.empty() ? context.run_dir + "/mlruns" : options.dir.text;
    return make_mlflow_files(std::filesystem::absolute(folder).string(), run, context);
  }
  MlflowServerAddress address{options.uri, mlflow_authorization()};
  while (address.url.ends_with('/')) address.url.pop_back();
  return make_mlflow_server(address, context.run_dir + "/mlflow", run, context);
}

class MlflowTracker final : public Tracker, public RemoteTracker {
 public:
  static constexpr auto kName = "mlflow";
  static constexpr auto kSummary =
      "A run in MLflow's file store or on an MLflow server; without histograms.";

  static Schema<MlflowOptions> schema() {
    return Schema<MlflowOptions>()
        .field("uri", &MlflowOptions::uri,
               "Address of an MLflow server; default without 'dir': MLFLOW_TRACKING_URI.",
               server_address())
        .on_resume(Change::kFree)
        .field("dir", &MlflowOptions::dir,
               "Folder of a file store, which may be shared by runs; default: 'mlruns' in the "
               "run's folder.")
        .on_resume(Change::kFree)
        .field("experiment", &MlflowOptions::experiment,
               "Experiment of the run; created when it does not exist.", not_blank())
        .on_resume(Change::kFree)
        .field("name", &MlflowOptions::name,
               "Name of the run; default: the run's name in accel-run.")
        .on_resume(Change::kFree)
        .field("notes", &MlflowOptions::notes, "Description of the run.")
        .on_resume(Change::kFree)
        .check([](const MlflowOptions& options, const Node& node, Reading& reading) {
          if (options.uri.empty() || options.dir.text.empty()) return;
          reading.problems.error(node.find("dir")->where, "'uri' and 'dir' exclude each other",
                                 "runs go to a server or into a folder");
        });
  }

  MlflowTracker(const MlflowOptions& options, const TrackerContext& context)
      : sink_(sink_for(with_environment(options), context)), first_step_(context.first_step) {}

  void config(const ConfigValues& values) override {
    for (const auto& [name, value] : values) {
      if (value.size() > kLongestParam) continue;
      sink_->param(first_step_, mlflow_key(name), valid_utf8(value));
    }
  }

  void log(int64_t step, std::span<const Measurement> values) override {
    std::vector<Measurement> renamed(values.begin(), values.end());
    for (auto& [name, value] : renamed) name = mlflow_key(name);
    sink_->metrics(step, milliseconds_since_1970(), renamed);
  }

  void text(int64_t step, const std::string& tag, const std::string& text) override {
    sink_->tag(step, mlflow_key(tag), first_characters(text, kLongestTag));
  }

  void histogram(int64_t, const std::string&, std::span<const float>) override {}

  void image(int64_t step, const std::string& tag, const Picture& picture) override {
    const ImageSize size{picture.height, picture.width};
    sink_->artifact(step, "images/" + mlflow_key(tag) + '_' + std::to_string(step) + ".png",
                    encode_png(size, picture.channels, picture.pixels));
  }

  void flush(Flush how) override { sink_->flush(how); }
  void finish(RunStatus status) override {
    sink_->end(status, milliseconds_since_1970());
    sink_->flush(Flush::kReadable);
  }
  std::map<std::string, std::string> ids() const override { return sink_->ids(); }

  bool is_online() const override { return sink_->remote(); }
  bool pending() const override { return sink_->remote()->pending(); }
  HttpRequest next() override { return sink_->remote()->next(); }
  Verdict replied(const HttpReply& reply) override { return sink_->remote()->replied(reply); }
  std::string unsent_summary() const override { return sink_->remote()->unsent_summary(); }

 private:
  static Rule<std::string> not_blank() {
    return {
        [](const std::string& text) { return text.find_first_not_of(' ') != std::string::npos; },
        "a name", "\"minLength\": 1"};
  }

  std::unique_ptr<MlflowSink> sink_;
  int64_t first_step_;
};

const Register<MlflowTracker> mlflow_tracker;

}  // namespace

std::unique_ptr<MlflowSink> make_mlflow_files(const std::string& folder, const MlflowRun& run,
                                              const TrackerContext& context) {
  try {
    return std::make_unique<MlflowFiles>(folder, run, context);
  } catch (const fs::filesystem_error& error) {
    throw IoError(text("cannot use the folder '{}': {}", folder, error.code().message()));
  }
}

std::string mlflow_authorization() {
  const std::string user = environment("MLFLOW_TRACKING_USERNAME");
  const std::string token = environment("MLFLOW_TRACKING_TOKEN");
  if (!user.empty()) return "Basic " + base64(user + ':' + environment("MLFLOW_TRACKING_PASSWORD"));
  return token.empty() ? "" : "Bearer " + token;
}

std::string mlflow_key(std::string_view name) {
  static const Regex refused(R"([^\p{L}\p{N}_\-.: /])");
  constexpr size_t kDigits = 8;
  const std::string path = safe_path(name);
  std::string key;
  size_t done = 0;
  Regex::Search search(refused, path);
  while (const auto found = search.next(done)) {
    key.append(path, done, found->begin - done).append("_");
    done = found->end;
  }
  key.append(path, done);
  if (key == path && key.size() <= kLongestKey) return key;
  size_t kept = std::min(key.size(), kLongestKey - kDigits - 1);
  while (kept < key.size() && (key[kept] & 0xc0) == 0x80) --kept;  // no part of a character
  return key.substr(0, kept) + '_' + hex_text(checksum_of(as_bytes(name))).substr(0, kDigits);
}

}  // namespace accel
