// MLflow's file store: a folder of small text files.
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "runner/track/append_file.h"
#include "runner/track/config_value.h"
#include "runner/track/metric_files.h"
#include "runner/track/mlflow_sink.h"
#include "runner/track/rewind.h"
#include "runner/track/run_names.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr int kRunning = 1, kFinished = 3, kFailed = 4;

/// A YAML scalar that is a text whatever it looks like. What YAML cannot hold becomes a blank.
std::string yaml_text(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '\'';
}

void write_file(const std::string& path, std::string_view content) {
  replace_file(path, [&](AppendFile& file) { file.append(content); });
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
      : folder_(std::move(folder)), run_(std::move(run)) {
    fs::create_directories(folder_ + "/.trash");
    experiment_ = find_experiment();
    const auto& ids = context.ids;
    if (ids.contains("run_id")) run_id_ = ids.at("run_id");
    if (run_id_.empty() || context.first_step == 0 || !fs::is_directory(run_folder())) {
      run_id_ = random_hex32();
    } else if (ids.contains("start_ms")) {
      run_.start_ms = std::atoll(ids.at("start_ms").c_str());
    }
    for (const char* part : {"/metrics", "/params", "/tags", "/artifacts"}) {
      fs::create_directories(run_folder() + part);
    }
    for (const auto& entry : fs::recursive_directory_iterator(run_folder() + "/metrics")) {
      rewind_lines(entry.path().string(), context.first_step, &step_of_metric_line);
      std::error_code error;  // MLflow reads no run that has an empty one
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
      files_.at(run_folder() + "/metrics/" + key)
          .append(std::to_string(time_ms) + ' ' + python_number(value) + ' ' +
                  std::to_string(step) + '\n');
    }
    files_.flush(Flush::kReadable);  // a file without a line would keep MLflow from the whole run
  }

  void tag(int64_t, const std::string& key, const std::string& value) override {
    write_file(run_folder() + "/tags/" + key, value);
  }

  void artifact(int64_t, const std::string& path, std::string_view bytes) override {
    write_file(run_folder() + "/artifacts/" + path, bytes);
  }

  void flush(Flush how) override { files_.flush(how); }

  void end(RunStatus status, int64_t time_ms) override {
    if (status == RunStatus::kInterrupted) return;  // it is still to end
    write_meta(status == RunStatus::kFinished ? kFinished : kFailed, time_ms);
  }

  std::map<std::string, std::string> ids() const override {
    return {{"run_id", run_id_}, {"start_ms", std::to_string(run_.start_ms)}};
  }
  Uplink* uplink() override { return nullptr; }

 private:
  std::string run_folder() const { return folder_ + '/' + experiment_ + '/' + run_id_; }

  /// As Python's float() reads it.
  static std::string python_number(double value) {
    const std::string text = python_json(value);
    return text == "NaN" ? "nan" : text == "Infinity" ? "inf" : text == "-Infinity" ? "-inf" : text;
  }

  /// The id of the experiment, which is made when there is none of its name.
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
  MetricFiles files_;
};

}  // namespace

std::unique_ptr<MlflowSink> make_mlflow_files(const std::string& folder, const MlflowRun& run,
                                              const TrackerContext& context) {
  try {
    return std::make_unique<MlflowFiles>(folder, run, context);
  } catch (const fs::filesystem_error& error) {
    throw IoError("cannot use the folder '" + folder + "': " + error.code().message());
  }
}

}  // namespace accel
