// The swanlab tracker: an offline run for `swanlab sync`.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <set>
#include <string_view>

#include "core/api/tracker.h"
#include "core/base/bytes.h"
#include "core/base/digest.h"
#include "core/base/folders.h"
#include "core/base/json_text.h"
#include "core/recipe/registry.h"
#include "formats/block_log.h"
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

struct SwanlabOptions {
  FilePath dir;
  std::string project = "accel-run";
  std::string workspace;
  std::string name;
  std::string notes;
  std::vector<std::string> tags;
};

// Field numbers of the messages in swanlab 0.10.3.
namespace swan_record {
constexpr int kNumber = 1, kTime = 2, kStart = 10, kFinish = 11, kColumn = 12, kScalar = 13,
              kMedia = 14, kSave = 20;
constexpr int64_t kStartNumber = -1, kFinishNumber = -2, kConfigNumber = -3;
}  // namespace swan_record
namespace swan_start {
constexpr int kProject = 1, kWorkspace = 2, kName = 4, kNotes = 5, kTags = 6, kId = 10,
              kStarted = 12;
}
namespace swan_finish {
constexpr int kState = 1, kTime = 3;
constexpr uint64_t kFinished = 1, kCrashed = 2;
}  // namespace swan_finish
namespace swan_column {
constexpr int kClass = 1, kType = 2, kKey = 3, kSection = 5, kSectionType = 6;
constexpr uint64_t kCustom = 1, kScalar = 1, kImage = 2, kText = 4, kPublic = 3;
}  // namespace swan_column
namespace swan_scalar {
constexpr int kKey = 1, kStep = 2, kType = 3, kTime = 4, kValue = 5, kNumber = 1;
}
namespace swan_media {  // an item; the record has the fields of swan_scalar
constexpr int kItem = 1, kFile = 1, kDigest = 2, kBytes = 3;
}
namespace swan_save {
constexpr int kName = 1, kSource = 2, kType = 5;
constexpr uint64_t kConfig = 1;
}  // namespace swan_save

ProtoMessage swan_time(double seconds) {
  const double whole = std::floor(seconds);
  ProtoMessage out;
  return out.varint(1, static_cast<uint64_t>(whole))
      .varint(2, static_cast<uint64_t>((seconds - whole) * 1e9));
}

void add_some(ProtoMessage& out, int field, const std::string& text) {
  if (!text.empty()) out.text(field, text);
}

std::string swan_head() {
  constexpr uint16_t kMagic = 0xE1D6;
  constexpr char kVersion = 2;
  std::string out = ":SWL";
  put_little(out, kMagic);
  return out + kVersion;
}

/// As validated by the package; the server would reject the run after its end.
Rule<std::string> swanlab_project() {
  return {[](const std::string& name) {
            const auto plain = [](char c) {
              return std::isalnum(static_cast<unsigned char>(c)) ||
                     std::string_view("-_.+").find(c) != std::string_view::npos;
            };
            return !name.empty() && name.size() <= 100 &&
                   std::all_of(name.begin(), name.end(), plain);
          },
          "at most 100 letters, digits, '-', '_', '.' or '+'",
          "\"pattern\": \"^[0-9a-zA-Z_.+-]{1,100}$\""};
}

class SwanlabTracker final : public Tracker {
 public:
  static constexpr auto kName = "swanlab";
  static constexpr auto kSummary =
      "An offline run of SwanLab in the file format of swanlab 0.10; `swanlab sync FOLDER` uploads "
      "it. Without histograms.";

  static Schema<SwanlabOptions> schema() {
    return Schema<SwanlabOptions>()
        .field("dir", &SwanlabOptions::dir,
               "Parent of the folder run-...; default: 'swanlog' in the run's folder.")
        .on_resume(Change::kFree)
        .field("project", &SwanlabOptions::project, "Project of the uploaded run.",
               swanlab_project())
        .on_resume(Change::kFree)
        .field("workspace", &SwanlabOptions::workspace,
               "Workspace of the project; default: that of the uploading user.")
        .on_resume(Change::kFree)
        .field("name", &SwanlabOptions::name,
               "Name of the run; default: the run's name in accel-run.")
        .on_resume(Change::kFree)
        .field("notes", &SwanlabOptions::notes, "Description of the run.")
        .on_resume(Change::kFree)
        .field("tags", &SwanlabOptions::tags, "Tags of the run, to filter by.")
        .on_resume(Change::kFree);
  }

  SwanlabTracker(const SwanlabOptions& options, const TrackerContext& context)
      : options_(options),
        dir_(options.dir.text.empty() ? context.run_dir + "/swanlog" : options.dir.text) {
    if (options_.name.empty()) options_.name = context.run_name;
    make_tracker_folder(context, dir_);
    constexpr size_t kIdLength = 8;
    const TrackedRun run = tracked_run(context, "run_id", kIdLength);
    id_ = run.id;
    if (run.resumes && resume(context.ids)) return;
    if (run.resumes) id_ = replacing_id(run, context.first_step);
    create(static_cast<double>(run.start_ms) * 1e-3);
  }

  void config(const ConfigValues& values) override {
    std::string text;
    for (size_t i = 0; i < values.size(); ++i) {
      text += json_text(values[i].first) + ": {desc: '', sort: " + std::to_string(i) +
              ", value: " + config_json(values[i].second) + "}\n";
    }
    const std::string path = fs::absolute(folder_ + "/files/config.yaml").string();
    write_file_within(dir_, path, text);
    if (config_recorded_) return;  // the record has only the path
    config_recorded_ = true;
    ProtoMessage save;
    save.text(swan_save::kName, "config.yaml")
        .text(swan_save::kSource, path)
        .varint(swan_save::kType, swan_save::kConfig);
    append(swan_record::kConfigNumber, swan_record::kSave, save);
  }

  void log(int64_t step, std::span<const Measurement> values) override {
    for (const auto& [name, value] : values) {
      if (name.empty()) continue;
      declare_column(name, swan_column::kScalar);
      ProtoMessage number, scalar;
      number.number(swan_scalar::kNumber, std::isfinite(value) ? value : std::nan(""));
      scalar.text(swan_scalar::kKey, name)
          .varint(swan_scalar::kStep, static_cast<uint64_t>(step))
          .varint(swan_scalar::kType, swan_column::kScalar)
          .message(swan_scalar::kTime, swan_time(seconds_since_1970()))
          .message(swan_scalar::kValue, number);
      append(++records_, swan_record::kScalar, scalar);
    }
  }

  void text(int64_t step, const std::string& tag, const std::string& text) override {
    add_media(step, tag, swan_column::kText, valid_utf8(text));
  }

  void histogram(int64_t, const std::string&, std::span<const float>) override {}
  void image(int64_t step, const std::string& tag, const Picture& picture) override {
    add_media(step, tag, swan_column::kImage,
              encode_png({picture.height, picture.width}, picture.channels, picture.pixels));
  }

  void flush(Flush how) override { file_.flush(how); }

  void finish(RunStatus status) override {
    if (status != RunStatus::kInterrupted) {  // an interrupted run can be resumed
      ProtoMessage end;
      end.varint(swan_finish::kState,
                 status == RunStatus::kFinished ? swan_finish::kFinished : swan_finish::kCrashed)
          .message(swan_finish::kTime, swan_time(seconds_since_1970()));
      append(swan_record::kFinishNumber, swan_record::kFinish, end);
    }
    file_.flush(Flush::kReadable);
  }

  std::map<std::string, std::string> ids() const override {
    return {{"run_id", id_},
            {"folder", fs::path(folder_).filename().string()},
            {"bytes", std::to_string(file_.bytes())},
            {"records", std::to_string(records_)}};
  }

 private:
  std::string log_path() const { return folder_ + "/run-" + id_ + ".swanlab"; }

  /// Resumes the run of a checkpoint. False when its file is missing.
  bool resume(const TrackerIdMap& ids) {
    if (!ids.contains("folder")) return false;
    folder_ = dir_ + '/' + id_text(ids, "folder");
    records_ = static_cast<int64_t>(id_number(ids, "records"));
    const uint64_t bytes = id_number(ids, "bytes");
    if (bytes == 0 || !file_.resume(log_path(), bytes)) return false;
    config_recorded_ = true;
    return true;
  }

  void create(double started) {
    folder_ = dir_ + "/run-" + dated_name(started, id_);
    std::error_code error;           // reported by file_
    fs::remove_all(folder_, error);  // of a process that was killed before its first checkpoint
    make_folder_within(dir_, folder_ + "/files");
    make_folder_within(dir_, folder_ + "/debug");
    file_.create(log_path());
    records_ = 0;
    file_.append(swan_head());
    ProtoMessage start;
    start.text(swan_start::kProject, options_.project);
    add_some(start, swan_start::kWorkspace, options_.workspace);
    start.text(swan_start::kName, options_.name);
    add_some(start, swan_start::kNotes, options_.notes);
    for (const std::string& tag : options_.tags) start.text(swan_start::kTags, tag);
    start.text(swan_start::kId, id_).message(swan_start::kStarted, swan_time(started));
    append(swan_record::kStartNumber, swan_record::kStart, start);
    file_.flush(Flush::kReadable);
  }

  /// Declares a metric before its first value; its section is the prefix before the slash.
  void declare_column(const std::string& name, uint64_t type) {
    if (!columns_.insert(name).second) return;
    ProtoMessage column;
    column.varint(swan_column::kClass, swan_column::kCustom)
        .varint(swan_column::kType, type)
        .text(swan_column::kKey, name);
    const size_t slash = name.find('/');
    if (slash != name.npos) column.text(swan_column::kSection, name.substr(0, slash));
    column.varint(swan_column::kSectionType, swan_column::kPublic);
    append(++records_, swan_record::kColumn, column);
  }

  /// A media file and its record.
  void add_media(int64_t step, const std::string& tag, uint64_t type, const std::string& content) {
    const bool image = type == swan_column::kImage;
    const std::string digest = digest_of(Digest::Kind::kSha256, content);
    std::string name = std::to_string(step);
    name.insert(0, name.size() < 3 ? 3 - name.size() : 0, '0');
    name.append("-").append(digest, 0, 8).append(image ? ".png" : ".txt");
    write_file_within(dir_, folder_ + "/media/" + (image ? "image/" : "text/") + name, content);
    declare_column(tag, type);
    ProtoMessage item, value, media;
    item.text(swan_media::kFile, name)
        .text(swan_media::kDigest, digest)
        .varint(swan_media::kBytes, content.size());
    value.message(swan_media::kItem, item);
    media.text(swan_scalar::kKey, tag)
        .varint(swan_scalar::kStep, static_cast<uint64_t>(step))
        .varint(swan_scalar::kType, type)
        .message(swan_scalar::kTime, swan_time(seconds_since_1970()))
        .message(swan_scalar::kValue, value);
    append(++records_, swan_record::kMedia, media);
  }

  void append(int64_t number, int kind, const ProtoMessage& content) {
    ProtoMessage record;
    record.varint(swan_record::kNumber, static_cast<uint64_t>(number))
        .message(swan_record::kTime, swan_time(seconds_since_1970()))
        .message(kind, content);
    file_.append(block_log_frames(record.encoded(), file_.bytes()));
  }

  SwanlabOptions options_;
  std::string dir_;
  std::string id_, folder_;
  ResumableFile file_;
  int64_t records_ = 0;
  bool config_recorded_ = false;
  std::set<std::string> columns_;  ///< declared since the start or resume; readers accept repeats
};

const Register<SwanlabTracker> swanlab_tracker;

}  // namespace
}  // namespace accel
