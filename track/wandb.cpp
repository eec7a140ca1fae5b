// The wandb tracker: an offline run for `wandb sync`.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "core/api/tracker.h"
#include "core/base/bytes.h"
#include "core/base/environment.h"
#include "core/base/folders.h"
#include "core/base/json_text.h"
#include "core/recipe/registry.h"
#include "formats/block_log.h"
#include "formats/checksum.h"
#include "formats/image/image.h"
#include "formats/protobuf.h"
#include "track/resumable_file.h"
#include "track/run_names.h"
#include "track/tracker_folder.h"
#include "track/tracker_runs.h"
#include "track/values.h"

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

/// Values as JSON by name.
using JsonItems = std::vector<std::pair<std::string, std::string>>;

struct WandbRun {
  std::string id;
  std::string entity;
  std::string project;
  std::string name;
  std::string group;
  std::string notes;
  std::vector<std::string> tags;
  std::string host;
  double start_time = 0;  ///< seconds since 1970
  int64_t starting_step = 0;
  GitState git;
};

// Version of the package with this format, and the oldest that reads it.
constexpr auto kWandbVersion = "0.31.0";
constexpr auto kOldestWandb = "0.70.0";

// Field numbers of wandb_internal.proto.
namespace wandb_record {
constexpr int kHistory = 2, kSummary = 3, kConfig = 5, kFiles = 6, kRun = 17, kExit = 18,
              kHeader = 21;
}
namespace wandb_header {
constexpr int kVersions = 1, kProducer = 1, kMinConsumer = 2;
}
namespace wandb_run {
constexpr int kId = 1, kEntity = 2, kProject = 3, kGroup = 6, kName = 8, kNotes = 9, kTags = 10,
              kHost = 13, kStartingStep = 14, kStartTime = 17, kGit = 21;
constexpr int kRemote = 1, kCommit = 2;
constexpr int kSeconds = 1, kNanos = 2;
}  // namespace wandb_run
namespace wandb_item {
constexpr int kKey = 1, kNestedKey = 2, kJson = 16;
}
namespace wandb_history {
constexpr int kItem = 1, kStep = 2, kNumber = 1;
}
constexpr int kWandbUpdate = 1;  // of config and summary
namespace wandb_files {
constexpr int kFile = 1, kPath = 1, kPolicy = 2, kType = 3;
constexpr uint64_t kAtEnd = 1, kMedia = 2;
}  // namespace wandb_files
namespace wandb_ending {
constexpr int kCode = 1, kRuntime = 2;
}

ProtoMessage wrapped(int field, const ProtoMessage& content) {
  return ProtoMessage().message(field, content);
}

void add_text(ProtoMessage& out, int field, const std::string& text) {
  if (!text.empty()) out.text(field, text);
}

ProtoMessage json_item(const std::string& key, const std::string& json) {
  ProtoMessage out;
  return out.text(wandb_item::kKey, key).text(wandb_item::kJson, json);
}

ProtoMessage timestamp(double seconds) {
  const double whole = std::floor(seconds);
  ProtoMessage out;
  return out.varint(wandb_run::kSeconds, static_cast<uint64_t>(whole))
      .varint(wandb_run::kNanos, static_cast<uint64_t>((seconds - whole) * 1e9));
}

/// The bytes before the first record.
std::string wandb_file_head() {
  constexpr uint16_t kMagic = 0xBEE1;
  std::string out = ":W&B";
  put_little(out, kMagic);
  return out + '\0';
}

ProtoMessage wandb_header_record() {
  ProtoMessage versions;
  versions.text(wandb_header::kProducer, kWandbVersion)
      .text(wandb_header::kMinConsumer, kOldestWandb);
  return wrapped(wandb_record::kHeader, wrapped(wandb_header::kVersions, versions));
}

ProtoMessage wandb_run_record(const WandbRun& run) {
  ProtoMessage out;
  out.text(wandb_run::kId, run.id);
  add_text(out, wandb_run::kEntity, run.entity);
  add_text(out, wandb_run::kProject, run.project);
  add_text(out, wandb_run::kGroup, run.group);
  add_text(out, wandb_run::kName, run.name);
  add_text(out, wandb_run::kNotes, run.notes);
  for (const std::string& tag : run.tags) out.text(wandb_run::kTags, tag);
  add_text(out, wandb_run::kHost, run.host);
  if (run.starting_step > 0) {
    out.varint(wandb_run::kStartingStep, static_cast<uint64_t>(run.starting_step));
  }
  out.message(wandb_run::kStartTime, timestamp(run.start_time));
  ProtoMessage git;
  add_text(git, wandb_run::kRemote, run.git.remote);
  add_text(git, wandb_run::kCommit, run.git.commit);
  if (!git.encoded().empty()) out.message(wandb_run::kGit, git);
  return wrapped(wandb_record::kRun, out);
}

/// Dots in option names become nested sections.
ProtoMessage wandb_config_record(const ConfigValues& values) {
  ProtoMessage out;
  for (const auto& [name, text] : values) {
    ProtoMessage option;
    for (size_t start = 0; start <= name.size();) {
      const size_t end = std::min(name.find('.', start), name.size());
      option.text(wandb_item::kNestedKey, std::string_view(name).substr(start, end - start));
      start = end + 1;
    }
    option.text(wandb_item::kJson, config_json(text));
    out.message(kWandbUpdate, option);
  }
  return wrapped(wandb_record::kConfig, out);
}

ProtoMessage wandb_history_record(int64_t step, const JsonItems& row) {
  ProtoMessage out;
  for (const auto& [key, json] : row) out.message(wandb_history::kItem, json_item(key, json));
  ProtoMessage number;
  number.varint(wandb_history::kNumber, static_cast<uint64_t>(step));
  out.message(wandb_history::kStep, number);
  return wrapped(wandb_record::kHistory, out);
}

ProtoMessage wandb_summary_record(const JsonItems& values) {
  ProtoMessage out;
  for (const auto& [key, json] : values) out.message(kWandbUpdate, json_item(key, json));
  return wrapped(wandb_record::kSummary, out);
}

/// Declares a media file, relative to the run's files/.
ProtoMessage wandb_media_record(const std::string& path) {
  ProtoMessage file;
  file.text(wandb_files::kPath, path)
      .varint(wandb_files::kPolicy, wandb_files::kAtEnd)
      .varint(wandb_files::kType, wandb_files::kMedia);
  return wrapped(wandb_record::kFiles, wrapped(wandb_files::kFile, file));
}

ProtoMessage wandb_exit_record(int exit_code, double runtime) {
  ProtoMessage out;
  if (exit_code != 0) out.varint(wandb_ending::kCode, static_cast<uint64_t>(exit_code));
  out.varint(wandb_ending::kRuntime, static_cast<uint64_t>(runtime));
  return wrapped(wandb_record::kExit, out);
}

/// As validated by the package; the server would reject the run after its end.
Rule<std::string> wandb_project() {
  return {[](const std::string& name) {
            return !name.empty() && name.size() <= 128 &&
                   name.find_first_of("/\\#?%:") == std::string::npos;
          },
          "at most 128 bytes without '/', '\\', '#', '?', '%' and ':'",
          R"("pattern": "^[^/\\\\#?%:]{1,128}$")"};
}

constexpr size_t kWandbIdLength = 8;

class WandbTracker final : public Tracker {
 public:
  static constexpr auto kName = "wandb";
  static constexpr const char* kHintFor[] = {"weights_and_biases"};
  static constexpr auto kSummary =
      "An offline run of Weights & Biases; `wandb sync FOLDER` uploads it.";

  static Schema<WandbOptions> schema() {
    return Schema<WandbOptions>()
        .field("dir", &WandbOptions::dir,
               "Parent of the folder offline-run-...; default: 'wandb' in the run's folder.")
        .on_resume(Change::kFree)
        .field("project", &WandbOptions::project, "Project of the uploaded run.", wandb_project())
        .on_resume(Change::kFree)
        .field("entity", &WandbOptions::entity,
               "User or team of the project; default: the uploading user.")
        .on_resume(Change::kFree)
        .field("name", &WandbOptions::name,
               "Name of the run; default: the run's name in accel-run.")
        .on_resume(Change::kFree)
        .field("group", &WandbOptions::group, "Group of the run, to show related runs together.")
        .on_resume(Change::kFree)
        .field("notes", &WandbOptions::notes, "Description of the run.")
        .on_resume(Change::kFree)
        .field("tags", &WandbOptions::tags, "Tags of the run, to filter by.")
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
    make_tracker_folder(context, dir_);
    const TrackedRun run = tracked_run(context, "run_id", kWandbIdLength);
    run_.id = run.id;
    run_.start_time = static_cast<double>(run.start_ms) * 1e-3;
    if (run.resumes && resume(context.ids)) return;
    if (run.resumes) run_.id = replacing_id(run, context.first_step);
    create(context.first_step);
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
    write_file_within(dir_, folder_ + "/files/" + path, png);
    append(wandb_media_record(path));
    set(step, tag,
        "{\"_type\":\"images/separated\",\"width\":" + std::to_string(picture.width) +
            ",\"height\":" + std::to_string(picture.height) +
            ",\"format\":\"png\",\"count\":1,\"filenames\":[" + json_text(path) + "]}");
  }

  void flush(Flush how) override {
    if (how == Flush::kDurable) write_row();
    file_.flush(how);
  }

  void finish(RunStatus status) override {
    write_row();
    if (status != RunStatus::kInterrupted) {  // an interrupted run can be resumed
      append(wandb_exit_record(status == RunStatus::kFinished ? 0 : 1, runtime()));
    }
    file_.flush(Flush::kReadable);
  }

  std::map<std::string, std::string> ids() const override {
    return {{"run_id", run_.id},
            {"folder", fs::path(folder_).filename().string()},
            {"bytes", std::to_string(file_.bytes())},
            {"records", std::to_string(records_)},
            {"runtime", std::to_string(static_cast<int64_t>(runtime()))}};
  }

 private:
  std::string log_path() const { return folder_ + "/run-" + run_.id + ".wandb"; }
  double runtime() const { return runtime_before_ + seconds_since_1970() - started_; }

  /// Resumes the run of a checkpoint. False when its file is missing.
  bool resume(const TrackerIdMap& ids) {
    folder_ = dir_ + '/' + id_text(ids, "folder");
    records_ = static_cast<int64_t>(id_number(ids, "records"));
    if (records_ == 0 || !file_.resume(log_path(), id_number(ids, "bytes"))) return false;
    std::error_code error;
    fs::remove(log_path() + ".synced", error);  // a mark that everything is uploaded
    runtime_before_ = static_cast<double>(id_number(ids, "runtime"));
    return true;
  }

  void create(int64_t first_step) {
    run_.starting_step = first_step;
    folder_ = dir_ + "/offline-run-" + dated_name(run_.start_time, run_.id);
    std::error_code error;           // reported by file_
    fs::remove_all(folder_, error);  // of a process that was killed before its first checkpoint
    make_folder_within(dir_, folder_ + "/files");
    make_folder_within(dir_, folder_ + "/logs");
    file_.create(log_path());
    records_ = 0;
    file_.append(wandb_file_head());
    append(wandb_header_record());
    append(wandb_run_record(run_));
    file_.flush(Flush::kReadable);
  }

  void append(const ProtoMessage& content) {
    constexpr int kNumber = 1;
    ProtoMessage numbered;
    numbered.varint(kNumber, static_cast<uint64_t>(++records_));
    file_.append(block_log_frames(numbered.encoded() + content.encoded(), file_.bytes()));
  }

  /// W&B requires one row per step.
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
  double runtime_before_ = 0;  ///< before the resume
  WandbRun run_;
  std::string folder_;
  ResumableFile file_;
  int64_t records_ = 0;
  int64_t row_step_ = 0;
  std::map<std::string, std::string> row_;      ///< values of row_step_, as JSON
  std::map<std::string, std::string> summary_;  ///< changes since the last summary record
};

const Register<WandbTracker> wandb_tracker;

}  // namespace
}  // namespace accel
