#include "runner/track/wandb_records.h"

#include <algorithm>
#include <cmath>

#include "runner/formats/bytes.h"
#include "runner/track/config_value.h"

namespace accel {
namespace {

// The version of the Python package whose records these are, and the oldest that reads them.
constexpr auto kProducer = "0.31.0";
constexpr auto kOldestReader = "0.70.0";

// Field numbers of the messages, as wandb_internal.proto gives them.
namespace record {
constexpr int kHistory = 2, kSummary = 3, kConfig = 5, kFiles = 6, kRun = 17, kExit = 18,
              kHeader = 21;
}
namespace header {
constexpr int kVersions = 1, kProducer = 1, kMinConsumer = 2;
}
namespace run {
constexpr int kId = 1, kEntity = 2, kProject = 3, kGroup = 6, kName = 8, kNotes = 9, kTags = 10,
              kHost = 13, kStartingStep = 14, kStartTime = 17, kGit = 21;
constexpr int kRemote = 1, kCommit = 2;
constexpr int kSeconds = 1, kNanos = 2;
}  // namespace run
namespace item {
constexpr int kKey = 1, kNestedKey = 2, kJson = 16;
}
namespace history {
constexpr int kItem = 1, kStep = 2, kNumber = 1;
}
constexpr int kUpdate = 1;  // of config and summary
namespace files {
constexpr int kFile = 1, kPath = 1, kPolicy = 2, kType = 3;
constexpr uint64_t kAtEnd = 1, kMedia = 2;
}  // namespace files
namespace ending {
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
  return out.text(item::kKey, key).text(item::kJson, json);
}

ProtoMessage timestamp(double seconds) {
  const double whole = std::floor(seconds);
  ProtoMessage out;
  return out.varint(run::kSeconds, static_cast<uint64_t>(whole))
      .varint(run::kNanos, static_cast<uint64_t>((seconds - whole) * 1e9));
}

}  // namespace

std::string wandb_file_head() {
  constexpr uint16_t kMagic = 0xBEE1;
  std::string out = ":W&B";
  put_little(out, kMagic);
  return out + '\0';
}

ProtoMessage wandb_header_record() {
  ProtoMessage versions;
  versions.text(header::kProducer, kProducer).text(header::kMinConsumer, kOldestReader);
  return wrapped(record::kHeader, wrapped(header::kVersions, versions));
}

ProtoMessage wandb_run_record(const WandbRun& run) {
  ProtoMessage out;
  out.text(run::kId, run.id);
  add_text(out, run::kEntity, run.entity);
  add_text(out, run::kProject, run.project);
  add_text(out, run::kGroup, run.group);
  add_text(out, run::kName, run.name);
  add_text(out, run::kNotes, run.notes);
  for (const std::string& tag : run.tags) out.text(run::kTags, tag);
  add_text(out, run::kHost, run.host);
  if (run.starting_step > 0) {
    out.varint(run::kStartingStep, static_cast<uint64_t>(run.starting_step));
  }
  out.message(run::kStartTime, timestamp(run.start_time));
  ProtoMessage git;
  add_text(git, run::kRemote, run.git.remote);
  add_text(git, run::kCommit, run.git.commit);
  if (!git.encoded().empty()) out.message(run::kGit, git);
  return wrapped(record::kRun, out);
}

ProtoMessage wandb_config_record(const ConfigValues& values) {
  ProtoMessage out;
  for (const auto& [name, text] : values) {
    ProtoMessage option;
    for (size_t start = 0; start <= name.size();) {
      const size_t end = std::min(name.find('.', start), name.size());
      option.text(item::kNestedKey, std::string_view(name).substr(start, end - start));
      start = end + 1;
    }
    option.text(item::kJson, config_json(text));
    out.message(kUpdate, option);
  }
  return wrapped(record::kConfig, out);
}

ProtoMessage wandb_history_record(int64_t step, const JsonItems& row) {
  ProtoMessage out;
  for (const auto& [key, json] : row) out.message(history::kItem, json_item(key, json));
  ProtoMessage number;
  number.varint(history::kNumber, static_cast<uint64_t>(step));
  out.message(history::kStep, number);
  return wrapped(record::kHistory, out);
}

ProtoMessage wandb_summary_record(const JsonItems& values) {
  ProtoMessage out;
  for (const auto& [key, json] : values) out.message(kUpdate, json_item(key, json));
  return wrapped(record::kSummary, out);
}

ProtoMessage wandb_media_record(const std::string& path) {
  ProtoMessage file;
  file.text(files::kPath, path)
      .varint(files::kPolicy, files::kAtEnd)
      .varint(files::kType, files::kMedia);
  return wrapped(record::kFiles, wrapped(files::kFile, file));
}

ProtoMessage wandb_exit_record(int exit_code, double runtime) {
  ProtoMessage out;
  if (exit_code != 0) out.varint(ending::kCode, static_cast<uint64_t>(exit_code));
  out.varint(ending::kRuntime, static_cast<uint64_t>(runtime));
  return wrapped(record::kExit, out);
}

}  // namespace accel
