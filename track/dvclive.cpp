// The dvclive tracker: metrics and plots in the files of DVCLive.
#include <charconv>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/api/tracker.h"
#include "core/base/append_file.h"
#include "core/base/drafts.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/folders.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "track/resumable_file.h"
#include "track/run_names.h"
#include "track/tracker_folder.h"
#include "track/values.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct DvcliveOptions {
  FilePath dir;
};

constexpr auto kHeader = "step\t";

std::optional<int64_t> step_of_tsv_line(std::string_view line) {
  if (line.starts_with(kHeader)) return std::numeric_limits<int64_t>::min();
  int64_t step = 0;
  const char* last = line.data() + line.size();
  const auto [end, error] = std::from_chars(line.data(), last, step);
  if (error != std::errc() || end == last || *end != '\t') return std::nullopt;
  return step;
}

/// Sets the nested key `name`; a component that already has a value keeps it.
void set_nested(Json& root, const std::string& name, char separator, Json value) {
  Json* at = &root;
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find(separator, start), name.size());
    if (!at->is_object()) return;
    at = &(*at)[name.substr(start, end - start)];
    if (at->is_null() && end < name.size()) *at = Json::object();
    start = end + 1;
  }
  if (!at->is_object()) *at = std::move(value);
}

class DvcliveTracker final : public Tracker {
 public:
  static constexpr auto kName = "dvclive";
  static constexpr auto kSummary =
      "Files for `dvc metrics show` and `dvc plots show`; without texts and histograms.";

  static Schema<DvcliveOptions> schema() {
    return Schema<DvcliveOptions>()
        .field("dir", &DvcliveOptions::dir,
               "Folder for this run only; default: 'dvclive' in the run's folder.")
        .on_resume(Change::kFree);
  }

  DvcliveTracker(const DvcliveOptions& options, const TrackerContext& context)
      : dir_(options.dir.text.empty() ? context.run_dir + "/dvclive" : options.dir.text),
        files_(dir_),
        first_step_(context.first_step) {
    make_tracker_folder(context, dir_);
    make_folder_within(dir_, plots());
    make_folder_within(dir_, dir_ + "/plots/images");
    remove_drafts(dir_);
    rewind_plots(context.first_step);
    const auto latest = context.ids.find("metrics");
    if (latest != context.ids.end()) latest_ = Json::parse(latest->second, nullptr, false);
    if (!latest_.is_object()) latest_ = Json::object();
    write_file_atomically(dir_ + "/dvc.yaml",
                          "params:\n- params.yaml\nmetrics:\n- metrics.json\n"
                          "plots:\n- plots/metrics:\n    x: step\n- plots/images\n");
    write_latest();
  }

  void config(const ConfigValues& values) override {
    Json nested = Json::object();
    for (const auto& [name, text] : values) {
      set_nested(nested, name, '.', Json::parse(config_json(text), nullptr, false));
    }
    write_file_atomically(dir_ + "/params.yaml", nested.dump(2) + '\n');  // JSON is YAML too
  }

  void log(int64_t step, std::span<const Measurement> values) override {
    for (const auto& [name, value] : values) {
      const std::string path = safe_path(name);
      set_nested(latest_, path, '/', value);
      append_row(path, step, value);
    }
    latest_["step"] = step;
    stale_ = true;
  }

  void text(int64_t, const std::string&, const std::string&) override {}
  void histogram(int64_t, const std::string&, std::span<const float>) override {}

  void image(int64_t step, const std::string& tag, const Picture& picture) override {
    write_picture(dir_,
                  dir_ + "/plots/images/" + safe_path(tag) + '/' + std::to_string(step) + ".png",
                  picture);
  }

  void flush(Flush how) override {
    files_.flush(how);
    if (stale_) write_latest();
  }

  void finish(RunStatus) override { flush(Flush::kReadable); }

  std::map<std::string, std::string> ids() const override { return {{"metrics", latest_.dump()}}; }

 private:
  std::string plots() const { return dir_ + "/plots/metrics"; }

  void rewind_plots(int64_t first_step) {
    std::vector<fs::path> tables;
    try {
      for (const auto& entry : fs::recursive_directory_iterator(plots())) {
        if (entry.path().extension() == ".tsv") tables.push_back(entry.path());
      }
      for (const fs::path& table : tables) {
        if (first_step > 0) rewind_lines(table.string(), first_step, &step_of_tsv_line);
        if (first_step == 0) fs::remove(table);  // of another run
      }
    } catch (const fs::filesystem_error& error) {
      throw IoError(
          accel::text("cannot read '{}': {}", error.path1().string(), error.code().message()));
    }
  }

  void write_latest() {
    write_file_atomically(dir_ + "/metrics.json", latest_.dump(4) + '\n');
    stale_ = false;
  }

  /// One row of the metric's table.
  void append_row(const std::string& path, int64_t step, double value) {
    const std::string table = plots() + '/' + path + ".tsv";
    if (step == first_step_ && ends_with_step(table, step, &step_of_tsv_line)) return;
    AppendFile& file = files_.at(table);
    std::string text;
    if (headed_.insert(path).second && (!fs::exists(table) || fs::file_size(table) == 0)) {
      text = kHeader + path.substr(path.rfind('/') + 1) + '\n';
    }
    file.append(text + std::to_string(step) + '\t' + csv_number(value) + '\n');
  }

  std::string dir_;
  Json latest_ = Json::object();
  bool stale_ = false;  ///< metrics.json is older than latest_
  MetricFiles files_;
  int64_t first_step_;            ///< evaluated again by each process that resumes there
  std::set<std::string> headed_;  ///< tables with a header
};

const Register<DvcliveTracker> dvclive_tracker;

}  // namespace
}  // namespace accel
