// The tensorboard tracker: event files.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "core/api/tracker.h"
#include "core/base/append_file.h"
#include "core/base/environment.h"
#include "core/recipe/registry.h"
#include "formats/image/image.h"
#include "formats/tfevents.h"
#include "track/run_names.h"
#include "track/tracker_folder.h"
#include "track/values.h"

namespace accel {
namespace {

struct TensorboardOptions {
  FilePath dir;
  std::string name;
};

constexpr std::string_view kFilePrefix = "events.out.tfevents.";

/// A time later than that of every file in `folder`: TensorBoard reads files in the order of their
/// names, and a restart event drops only steps that were read before.
int64_t next_file_time(const std::string& folder) {
  auto time = static_cast<int64_t>(seconds_since_1970());
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kFilePrefix)) continue;
    int64_t taken = 0;
    std::from_chars(name.data() + kFilePrefix.size(), name.data() + name.size(), taken);
    time = std::max(time, taken + 1);
  }
  return time;
}

std::string new_event_file(const std::string& folder) {
  char time[16];
  std::snprintf(time, sizeof time, "%010lld", static_cast<long long>(next_file_time(folder)));
  return folder + '/' + std::string(kFilePrefix) + time + '.' + host_name() + '.' +
         std::to_string(::getpid()) + ".0";
}

/// The tags that the files of `folder` have at `step`, after the restarts of earlier processes.
std::set<std::string> tags_at_step(const std::string& folder, int64_t step) {
  std::set<std::string> files;  // in the order in which TensorBoard reads them
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kFilePrefix)) files.insert(entry.path().string());
  }
  std::set<std::string> tags;
  for (const std::string& path : files) {
    TfEventReader reader(path);
    while (const std::optional<TfEvent> event = reader.next()) {
      if (event->restarts && event->step <= step) tags.clear();
      if (event->step == step) tags.insert(event->tags.begin(), event->tags.end());
    }
  }
  return tags;
}

/// A relative path within the log folder.
Rule<std::string> optional_run_path() {
  return {[](const std::string& name) {
            if (name.starts_with('/') || name.ends_with('/')) return false;
            for (const auto& part : std::filesystem::path(name)) {
              if (part.empty() || part == "." || part == "..") return false;
            }
            return true;
          },
          "a relative path without '.' and '..'", ""};
}

class TensorboardTracker final : public Tracker {
 public:
  static constexpr auto kName = "tensorboard";
  static constexpr const char* kHintFor[] = {"tb", "tensorboardx"};
  static constexpr auto kSummary =
      "TensorBoard event files with scalars, texts, histograms, images and hyperparameters.";

  static Schema<TensorboardOptions> schema() {
    return Schema<TensorboardOptions>()
        .field(
            "dir", &TensorboardOptions::dir,
            "Log folder that runs share, with one folder per run name; default: 'tensorboard' in "
            "the run's folder.")
        .on_resume(Change::kFree)
        .field("name", &TensorboardOptions::name,
               "Name of the run: its folder in 'dir', such as 'sweep/3'; default: the run's name.",
               optional_run_path())
        .on_resume(Change::kFree);
  }

  TensorboardTracker(const TensorboardOptions& options, const TrackerContext& context)
      : run_name_(options.name.empty() ? context.run_name : options.name),
        first_step_(context.first_step) {
    std::string folder = options.dir.text.empty() ? context.run_dir + "/tensorboard"
                                                  : options.dir.text + '/' + run_name_;
    if (options.dir.text.empty() && !options.name.empty()) folder += '/' + options.name;
    make_tracker_folder(context, folder);
    if (first_step_ > 0) resumed_ = tags_at_step(folder, first_step_);
    file_ = std::make_unique<AppendFile>(new_event_file(folder));
    const double now = seconds_since_1970();
    file_->append(tf_version_event(now));
    file_->append(tf_restart_event(now, first_step_ > 0 ? first_step_ + 1 : 0));
    file_->flush();
  }

  void config(const ConfigValues& values) override {
    Hparams hparams;
    for (const auto& [name, text] : values) hparams.emplace_back(name, config_value(text));
    TfSummary summary;
    summary.hparams_start(run_name_, seconds_since_1970(), hparams);
    write(first_step_, summary);
  }

  void log(int64_t step, std::span<const Measurement> values) override {
    TfSummary summary;
    for (const auto& [name, value] : values) {
      if (!is_written(step, name)) summary.scalar(name, value);
    }
    write(step, summary);
  }

  void text(int64_t step, const std::string& tag, const std::string& text) override {
    if (is_written(step, tf_text_tag(tag))) return;
    TfSummary summary;
    summary.text(tag, text);
    write(step, summary);
  }

  void histogram(int64_t step, const std::string& tag, std::span<const float> values) override {
    if (is_written(step, tag)) return;
    TfSummary summary;
    summary.histogram(tag, values);
    write(step, summary);
  }

  void image(int64_t step, const std::string& tag, const Picture& picture) override {
    if (is_written(step, tag)) return;
    const ImageSize size{picture.height, picture.width};
    TfSummary summary;
    summary.image(tag, size, static_cast<int>(picture.channels),
                  encode_png(size, picture.channels, picture.pixels));
    write(step, summary);
  }

  void flush(Flush how) override { file_->flush(how); }

  void finish(RunStatus status) override {
    if (status != RunStatus::kInterrupted) {  // an interrupted run can be resumed
      TfSummary summary;
      summary.hparams_end(
          status == RunStatus::kFinished ? HparamsStatus::kSuccess : HparamsStatus::kFailure,
          seconds_since_1970());
      write(first_step_, summary);
    }
    file_->flush();
  }

  std::map<std::string, std::string> ids() const override { return {}; }

 private:
  /// Whether an earlier process has written the value: the step from which a run resumes is
  /// evaluated again by each process that resumes there.
  bool is_written(int64_t step, const std::string& tag) const {
    return step == first_step_ && resumed_.contains(tag);
  }

  void write(int64_t step, const TfSummary& summary) {
    if (summary.empty()) return;
    file_->append(tf_summary_event(seconds_since_1970(), step, summary));
  }

  std::string run_name_;
  int64_t first_step_;
  std::set<std::string> resumed_;  ///< tags of first_step_ in the files of earlier processes
  std::unique_ptr<AppendFile> file_;
};

const Register<TensorboardTracker> tensorboard_tracker;

}  // namespace
}  // namespace accel
