// The prometheus tracker: the newest metrics in the text format of Prometheus, for the textfile
// collector of its node exporter.
#include <cctype>
#include <map>
#include <string>

#include "core/api/tracker.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/json_text.h"
#include "core/recipe/registry.h"
#include "track/tracker_folder.h"

namespace accel {
namespace {

struct PrometheusTrackerOptions {
  FilePath path;
};

/// "accel_run_train_loss" of "train/loss": letters, digits and underscores.
std::string metric_name(const std::string& name) {
  std::string out = "accel_run_";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    out += std::isalnum(byte) && byte < 128 ? c : '_';
  }
  return out;
}

/// The value of a label: backslash, quote and line end are escaped.
std::string label_value(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string sample(double value) {
  const std::string number = json_number(value);
  if (number != "null") return number;
  return value != value ? "NaN" : value > 0 ? "+Inf" : "-Inf";
}

class PrometheusTracker final : public Tracker {
 public:
  static constexpr auto kName = "prometheus";
  static constexpr auto kSummary =
      "The newest value of each metric in Prometheus' text format, replaced atomically: for the "
      "textfile collector of its node exporter. Without texts, histograms and images.";

  static Schema<PrometheusTrackerOptions> schema() {
    return Schema<PrometheusTrackerOptions>()
        .field("path", &PrometheusTrackerOptions::path,
               "Path of the file, in the folder that the collector reads, with the ending .prom; "
               "default: metrics.prom in the run's folder.")
        .on_resume(Change::kFree);
  }

  PrometheusTracker(const PrometheusTrackerOptions& options, const TrackerContext& context)
      : path_(options.path.text.empty() ? context.run_dir + "/metrics.prom" : options.path.text),
        run_label_("run=\"" + label_value(context.run_name) + '"') {
    make_tracker_folder(context, folder_of(path_));
  }

  void config(const ConfigValues&) override {}

  void log(int64_t step, std::span<const Measurement> values) override {
    for (const auto& [name, value] : values) values_[metric_name(name)][name] = value;
    values_[metric_name("step")]["step"] = static_cast<double>(step);
    changed_ = true;
  }

  void text(int64_t, const std::string&, const std::string&) override {}
  void histogram(int64_t, const std::string&, std::span<const float>) override {}
  void image(int64_t, const std::string&, const Picture&) override {}

  void flush(Flush) override {
    if (!changed_) return;
    std::string out;
    for (const auto& [name, group] : values_) {
      out += "# TYPE " + name + " gauge\n";
      for (const auto& [own_name, value] : group) {
        const bool is_shared = group.size() > 1;
        out += name + '{' + run_label_ +
               (is_shared ? ",name=\"" + label_value(own_name) + '"' : "") + "} " + sample(value) +
               '\n';
      }
    }
    write_file_atomically(path_, out);
    changed_ = false;
  }

  /// `accel_run_failed` is absent until the end.
  void finish(RunStatus status) override {
    values_[metric_name("failed")]["failed"] = status == RunStatus::kFailed ? 1 : 0;
    changed_ = true;
    flush(Flush::kDurable);
  }

  std::map<std::string, std::string> ids() const override { return {}; }

 private:
  std::string path_, run_label_;
  /// By metric_name() and name: names that differ in other characters only share the former.
  std::map<std::string, std::map<std::string, double>> values_;
  bool changed_ = false;
};

const Register<PrometheusTracker> prometheus_tracker;

}  // namespace
}  // namespace accel
