// The swanlab tracker: a run that `swanlab sync` uploads to SwanLab.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <set>
#include <string_view>

#include "core/json_text.h"
#include "core/registry.h"
#include "core/tracker.h"
#include "runner/formats/block_log.h"
#include "runner/formats/bytes.h"
#include "runner/formats/png_writer.h"
#include "runner/formats/protobuf.h"
#include "runner/formats/sha256.h"
#include "runner/track/append_file.h"
#include "runner/track/config_value.h"
#include "runner/track/run_names.h"

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

// Field numbers of the messages, as the package swanlab 0.10.3 has them.
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
namespace swan_media {  // an item; its record is as that of a number
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

/// "run-20260131_120000-a1b2c3d4"
std::string swan_folder(const std::string& id, double started) {
  const auto seconds = static_cast<std::time_t>(started);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  const size_t length = std::strftime(text, sizeof text, "%Y%m%d_%H%M%S", &parts);
  return std::string("run-").append(text, length) + '-' + id;
}

uint64_t number_of_id(const std::map<std::string, std::string>& ids, const char* key) {
  const auto found = ids.find(key);
  return found == ids.end() ? 0 : std::strtoull(found->second.c_str(), nullptr, 10);
}

/// What the package takes; its server would refuse another after the run.
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
      "An offline run of SwanLab; `swanlab sync FOLDER` uploads it. Histograms are left out. "
      "SwanLab's file format changes: this is that of its package 0.10.";

  static Schema<SwanlabOptions> schema() {
    return Schema<SwanlabOptions>()
        .field("dir", &SwanlabOptions::dir,
               "Where the folder run-... is made. When not given: 'swanlog' in the run's folder.")
        .on_resume(Change::kFree)
        .field("project", &SwanlabOptions::project, "Project that the run is uploaded to.",
               swanlab_project())
        .on_resume(Change::kFree)
        .field("workspace", &SwanlabOptions::workspace,
               "Owns the project; default: that of the one who uploads.")
        .on_resume(Change::kFree)
        .field("name", &SwanlabOptions::name,
               "What SwanLab calls the run; default: the run's name.")
        .on_resume(Change::kFree)
        .field("notes", &SwanlabOptions::notes, "What is to be remembered of this run.")
        .on_resume(Change::kFree)
        .field("tags", &SwanlabOptions::tags, "Words to find the run by.")
        .on_resume(Change::kFree);
  }

  SwanlabTracker(const SwanlabOptions& options, const TrackerContext& context)
      : options_(options),
        dir_(options.dir.text.empty() ? context.run_dir + "/swanlog" : options.dir.text) {
    if (options_.name.empty()) options_.name = context.run_name;
    if (context.first_step == 0 || !go_on(context.ids)) begin();
  }

  void config(const ConfigValues& values) override {
    std::string text;
    for (size_t i = 0; i < values.size(); ++i) {
      text += json_text(values[i].first) + ": {desc: '', sort: " + std::to_string(i) +
              ", value: " + config_json(values[i].second) + "}\n";
    }
    const std::string path = fs::absolute(folder_ + "/files/config.yaml").string();
    replace_file(path, [&](AppendFile& file) { file.append(text); });
    if (config_told_) return;  // the record says where it is, not what is in it
    config_told_ = true;
    ProtoMessage save;
    save.text(swan_save::kName, "config.yaml")
        .text(swan_save::kSource, path)
        .varint(swan_save::kType, swan_save::kConfig);
    append(swan_record::kConfigNumber, swan_record::kSave, save);
  }

  void log(int64_t step, std::span<const Measurement> values) override {
    for (const auto& [name, value] : values) {
      if (name.empty()) continue;
      tell_column(name, swan_column::kScalar);
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
    medium(step, tag, swan_column::kText, valid_utf8(text));
  }

  void histogram(int64_t, const std::string&, std::span<const float>) override {}
  void image(int64_t step, const std::string& tag, const Picture& picture) override {
    medium(step, tag, swan_column::kImage,
           encode_png({picture.height, picture.width}, picture.channels, picture.pixels));
  }

  void flush(Flush how) override { file_->flush(how); }

  void finish(RunStatus status) override {
    if (status != RunStatus::kInterrupted) {  // an interrupted run is still to end
      ProtoMessage end;
      end.varint(swan_finish::kState,
                 status == RunStatus::kFinished ? swan_finish::kFinished : swan_finish::kCrashed)
          .message(swan_finish::kTime, swan_time(seconds_since_1970()));
      append(swan_record::kFinishNumber, swan_record::kFinish, end);
    }
    file_->flush();
  }

  std::map<std::string, std::string> ids() const override {
    return {{"run_id", id_},
            {"folder", fs::path(folder_).filename().string()},
            {"bytes", std::to_string(bytes_)},
            {"records", std::to_string(records_)}};
  }

 private:
  std::string log_path() const { return folder_ + "/run-" + id_ + ".swanlab"; }

  /// Takes up the run of a checkpoint: its file is cut to what it held then. False when it is gone.
  bool go_on(const std::map<std::string, std::string>& ids) {
    for (const char* key : {"run_id", "folder"}) {
      if (!ids.contains(key)) return false;
    }
    id_ = ids.at("run_id");
    folder_ = dir_ + '/' + ids.at("folder");
    bytes_ = number_of_id(ids, "bytes");
    records_ = static_cast<int64_t>(number_of_id(ids, "records"));
    std::error_code error;
    const uint64_t size = fs::file_size(log_path(), error);
    if (error || bytes_ == 0 || size < bytes_) return false;
    fs::resize_file(log_path(), bytes_, error);
    if (error) return false;
    config_told_ = true;
    file_ = std::make_unique<AppendFile>(log_path());
    return true;
  }

  void begin() {
    const double started = seconds_since_1970();
    id_ = random_name(8, "abcdefghijklmnopqrstuvwxyz0123456789");
    folder_ = dir_ + '/' + swan_folder(id_, started);
    std::error_code error;  // told by AppendFile
    fs::create_directories(folder_ + "/files", error);
    fs::create_directories(folder_ + "/debug", error);
    file_ = std::make_unique<AppendFile>(log_path());
    bytes_ = 0;
    records_ = 0;
    put(swan_head());
    ProtoMessage start;
    start.text(swan_start::kProject, options_.project);
    add_some(start, swan_start::kWorkspace, options_.workspace);
    start.text(swan_start::kName, options_.name);
    add_some(start, swan_start::kNotes, options_.notes);
    for (const std::string& tag : options_.tags) start.text(swan_start::kTags, tag);
    start.text(swan_start::kId, id_).message(swan_start::kStarted, swan_time(started));
    append(swan_record::kStartNumber, swan_record::kStart, start);
    file_->flush();
  }

  /// A metric is announced before its first value; its section is what stands before the slash.
  void tell_column(const std::string& name, uint64_t type) {
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

  /// A file beside the record, which names it.
  void medium(int64_t step, const std::string& tag, uint64_t type, const std::string& content) {
    const bool image = type == swan_column::kImage;
    const std::string digest = sha256_of(as_bytes(content));
    std::string name = std::to_string(step);
    name.insert(0, name.size() < 3 ? 3 - name.size() : 0, '0');
    name.append("-").append(digest, 0, 8).append(image ? ".png" : ".txt");
    replace_file(folder_ + "/media/" + (image ? "image/" : "text/") + name,
                 [&](AppendFile& file) { file.append(content); });
    tell_column(tag, type);
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

  void put(const std::string& bytes) {
    file_->make_room();  // what it does not take has no place in the file
    bytes_ += bytes.size();
    file_->append(bytes);
  }

  void append(int64_t number, int kind, const ProtoMessage& content) {
    ProtoMessage record;
    record.varint(swan_record::kNumber, static_cast<uint64_t>(number))
        .message(swan_record::kTime, swan_time(seconds_since_1970()))
        .message(kind, content);
    put(block_log_frames(record.encoded(), bytes_));
  }

  SwanlabOptions options_;
  std::string dir_;
  std::string id_, folder_;
  std::unique_ptr<AppendFile> file_;
  uint64_t bytes_ = 0;  ///< in the file once the buffer is written
  int64_t records_ = 0;
  bool config_told_ = false;
  std::set<std::string> columns_;  ///< metrics that are announced, in this life; readers take two
};

const Register<SwanlabTracker> swanlab_tracker;

}  // namespace
}  // namespace accel
