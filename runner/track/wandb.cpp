// The wandb tracker: an offline run that `wandb sync` uploads to Weights & Biases.
#include <charconv>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>

#include "core/host_name.h"
#include "core/json_text.h"
#include "core/registry.h"
#include "core/tracker.h"
#include "runner/formats/block_log.h"
#include "runner/formats/checksum.h"
#include "runner/formats/png_writer.h"
#include "runner/track/append_file.h"
#include "runner/track/config_value.h"
#include "runner/track/histogram_json.h"
#include "runner/track/run_names.h"
#include "runner/track/wandb_records.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct WandbOptions {
  FilePath dir;
  std::string project = "accel-run";
  std::string entity;
  std::string name;
  std::string group;
  std::string notes;
  std::vector<std::string> tags;
};

int64_t number_in(const std::map<std::string, std::string>& ids, const std::string& key) {
  const auto found = ids.find(key);
  int64_t value = 0;
  if (found != ids.end()) {
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), value);
  }
  return value;
}

std::string text_in(const std::map<std::string, std::string>& ids, const std::string& key) {
  const auto found = ids.find(key);
  return found == ids.end() ? "" : found->second;
}

/// "offline-run-20260131_120000-a1b2c3d4"
std::string folder_name(const std::string& id, double start_time) {
  const auto seconds = static_cast<std::time_t>(start_time);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  const size_t length = std::strftime(text, sizeof text, "%Y%m%d_%H%M%S", &parts);
  return "offline-run-" + std::string(text, length) + '-' + id;
}

/// What the package takes; its server would refuse another after the run.
Rule<std::string> wandb_project() {
  return {[](const std::string& name) {
            return !name.empty() && name.size() <= 128 &&
                   name.find_first_of("/\\#?%:") == std::string::npos;
          },
          "at most 128 bytes without '/', '\\', '#', '?', '%' and ':'",
          R"("pattern": "^[^/\\\\#?%:]{1,128}$")"};
}

class WandbTracker final : public Tracker {
 public:
  static constexpr auto kName = "wandb";
  static constexpr auto kSummary =
      "An offline run of Weights & Biases; `wandb sync FOLDER` uploads it.";

  static Schema<WandbOptions> schema() {
    return Schema<WandbOptions>()
        .field("dir", &WandbOptions::dir,
               "Where the folder offline-run-... is made. When not given: 'wandb' in the run's "
               "folder.")
        .on_resume(Change::kFree)
        .field("project", &WandbOptions::project, "Project that the run is uploaded to.",
               wandb_project())
        .on_resume(Change::kFree)
        .field("entity", &WandbOptions::entity,
               "User or team that owns the project; default: the one who uploads.")
        .on_resume(Change::kFree)
        .field("name", &WandbOptions::name, "What W&B calls the run; default: the run's name.")
        .on_resume(Change::kFree)
        .field("group", &WandbOptions::group, "Runs of one group are shown together.")
        .on_resume(Change::kFree)
        .field("notes", &WandbOptions::notes, "What is to be remembered of this run.")
        .on_resume(Change::kFree)
        .field("tags", &WandbOptions::tags, "Words to find the run by.")
        .on_resume(Change::kFree);
  }

  WandbTracker(const WandbOptions& options, const TrackerContext& context)
      : dir_(options.dir.text.empty() ? context.run_dir + "/wandb" : options.dir.text),
        started_(seconds_since_1970()) {
    run_.entity = options.entity;
    run_.project = options.project;
    run_.name = options.name.empty() ? context.run_name : options.name;
    run_.group = options.group;
    run_.notes = options.notes;
    run_.tags = options.tags;
    run_.host = host_name();
    run_.git = context.git;
    if (context.first_step == 0 || !go_on(context.ids)) begin(context.first_step);
  }

  void config(const ConfigValues& values) override { append(wandb_config_record(values)); }

  void log(int64_t step, std::span<const Measurement> values) override {
    for (const auto& [name, value] : values) set(step, name, python_json(value));
  }

  void text(int64_t step, const std::string& tag, const std::string& text) override {
    set(step, tag, json_text(text));
  }

  void histogram(int64_t step, const std::string& tag, std::span<const float> values) override {
    const std::string json = histogram_json("histogram", values);
    if (!json.empty()) set(step, tag, json);
  }

  void image(int64_t step, const std::string& tag, const Picture& picture) override {
    const std::string png =
        encode_png({picture.height, picture.width}, picture.channels, picture.pixels);
    const std::string path = "media/images/" + safe_path(tag) + '_' + std::to_string(step) + '_' +
                             hex_text(checksum_of(as_bytes(png))) + ".png";
    replace_file(folder_ + "/files/" + path, [&](AppendFile& file) { file.append(png); });
    append(wandb_media_record(path));
    set(step, tag,
        "{\"_type\":\"images/separated\",\"width\":" + std::to_string(picture.width) +
            ",\"height\":" + std::to_string(picture.height) +
            ",\"format\":\"png\",\"count\":1,\"filenames\":[" + json_text(path) + "]}");
  }

  void flush(Flush how) override {
    if (how == Flush::kDurable) write_row();
    file_->flush(how);
  }

  void finish(RunStatus status) override {
    write_row();
    if (status != RunStatus::kInterrupted) {  // an interrupted run is still to end
      append(wandb_exit_record(status == RunStatus::kFinished ? 0 : 1, runtime()));
    }
    file_->flush();
  }

  std::map<std::string, std::string> ids() const override {
    return {{"run_id", run_.id},
            {"folder", fs::path(folder_).filename().string()},
            {"bytes", std::to_string(bytes_)},
            {"records", std::to_string(records_)},
            {"runtime", std::to_string(static_cast<int64_t>(runtime()))}};
  }

 private:
  std::string log_path() const { return folder_ + "/run-" + run_.id + ".wandb"; }
  double runtime() const { return runtime_before_ + seconds_since_1970() - started_; }

  /// Takes up the run of a checkpoint: its file is cut to what it held then. False when it is gone.
  bool go_on(const std::map<std::string, std::string>& ids) {
    run_.id = text_in(ids, "run_id");
    folder_ = dir_ + '/' + text_in(ids, "folder");
    bytes_ = static_cast<uint64_t>(number_in(ids, "bytes"));
    records_ = number_in(ids, "records");
    std::error_code error;
    const uint64_t size = fs::file_size(log_path(), error);
    if (error || records_ == 0 || size < bytes_) return false;
    fs::resize_file(log_path(), bytes_, error);
    if (error) return false;
    fs::remove(log_path() + ".synced", error);  // there is more to upload
    runtime_before_ = static_cast<double>(number_in(ids, "runtime"));
    file_ = std::make_unique<AppendFile>(log_path());
    return true;
  }

  void begin(int64_t first_step) {
    run_.id = random_name(8, "abcdefghijklmnopqrstuvwxyz0123456789");
    run_.start_time = started_;
    run_.starting_step = first_step;
    folder_ = dir_ + '/' + folder_name(run_.id, started_);
    std::error_code error;  // told by AppendFile
    fs::create_directories(folder_ + "/files", error);
    fs::create_directories(folder_ + "/logs", error);
    file_ = std::make_unique<AppendFile>(log_path());
    bytes_ = 0;
    records_ = 0;
    put(wandb_file_head());
    append(wandb_header_record());
    append(wandb_run_record(run_));
    file_->flush();
  }

  void put(const std::string& bytes) {
    file_->make_room();  // what it does not take has no place in the file
    bytes_ += bytes.size();
    file_->append(bytes);
  }

  void append(const ProtoMessage& content) {
    constexpr int kNumber = 1;
    ProtoMessage numbered;
    numbered.varint(kNumber, static_cast<uint64_t>(++records_));
    put(block_log_frames(numbered.encoded() + content.encoded(), bytes_));
  }

  /// W&B wants one row for all values of a step.
  void set(int64_t step, const std::string& key, const std::string& json) {
    if (step != row_step_) write_row();
    row_step_ = step;
    row_[key] = json;
  }

  void write_row() {
    if (row_.empty()) return;
    row_["_step"] = std::to_string(row_step_);
    row_["_runtime"] = json_number(runtime());
    row_["_timestamp"] = json_number(seconds_since_1970());
    for (const auto& [key, json] : row_) summary_[key] = json;
    const JsonItems row(row_.begin(), row_.end());
    row_.clear();
    append(wandb_history_record(row_step_, row));
    append(wandb_summary_record({summary_.begin(), summary_.end()}));
    summary_.clear();
  }

  std::string dir_;
  double started_;
  double runtime_before_ = 0;  ///< of earlier lives
  WandbRun run_;
  std::string folder_;
  std::unique_ptr<AppendFile> file_;
  uint64_t bytes_ = 0;  ///< in the file once the buffer is written
  int64_t records_ = 0;
  int64_t row_step_ = 0;
  std::map<std::string, std::string> row_;      ///< collected for row_step_, as JSON
  std::map<std::string, std::string> summary_;  ///< what changed since it was written
};

const Register<WandbTracker> wandb_tracker;

}  // namespace
}  // namespace accel
