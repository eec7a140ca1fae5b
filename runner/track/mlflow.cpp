// The mlflow tracker: runs in MLflow's file store, or on an MLflow server.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "core/json_text.h"
#include "core/registry.h"
#include "core/tracker.h"
#include "runner/formats/base64.h"
#include "runner/formats/png_writer.h"
#include "runner/track/mlflow_sink.h"
#include "runner/track/run_names.h"

namespace accel {
namespace {

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
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_server(const std::string& uri) {
  return uri.starts_with("http://") || uri.starts_with("https://");
}

Rule<std::string> server_address() {
  return {[](const std::string& uri) {
            // A host: something behind the two slashes.
            const size_t host = uri.find("//") + 2;
            return uri.empty() ||
                   (is_server(uri) && host < uri.size() && uri.find_first_of(":/", host) != host &&
                    uri.find('@') == std::string::npos &&
                    uri.find_first_of(" \t\r\n") == std::string::npos);
          },
          "the http:// or https:// address of a server, without a password", ""};
}

/// As MLflow's own client takes them from the environment.
std::string authorization() {
  const std::string user = environment("MLFLOW_TRACKING_USERNAME");
  const std::string token = environment("MLFLOW_TRACKING_TOKEN");
  if (!user.empty()) return "Basic " + base64(user + ':' + environment("MLFLOW_TRACKING_PASSWORD"));
  return token.empty() ? "" : "Bearer " + token;
}

/// Where runs go when the recipe does not say.
MlflowOptions with_environment(MlflowOptions options) {
  if (!options.uri.empty() || !options.dir.text.empty()) return options;
  const std::string uri = environment("MLFLOW_TRACKING_URI");
  constexpr std::string_view kFile = "file://";
  if (is_server(uri)) {
    options.uri = uri;
  } else if (uri.starts_with(kFile)) {
    options.dir.text = uri.substr(kFile.size());
  } else if (uri.find(':') == std::string::npos) {
    options.dir.text = uri;
  } else {
    throw Error(ExitCode::kRecipe,
                "MLFLOW_TRACKING_URI is '" + uri + "', which the tracker 'mlflow' cannot write to",
                "set it to an http:// address or a folder, or give the tracker its 'uri' or 'dir'");
  }
  return options;
}

std::string first_characters(const std::string& text, size_t most) {
  return valid_utf8(std::string_view(text).substr(0, most));
}

std::unique_ptr<MlflowSink> sink_for(const MlflowOptions& options, const TrackerContext& context) {
  MlflowRun run;
  run.experiment = options.experiment;
  run.name = options.name.empty() ? context.run_name : options.name;
  run.user = environment("USER");
  run.start_ms = milliseconds_since_1970();
  run.tags = {{"mlflow.source.name", "accel-run"}, {"mlflow.source.type", "LOCAL"}};
  const std::pair<const char*, std::string> facts[] = {
      {"mlflow.source.git.commit", context.git.commit},
      {"mlflow.source.git.branch", context.git.branch},
      {"mlflow.source.git.repoURL", context.git.remote},
      {"mlflow.note.content", first_characters(options.notes, kLongestTag)}};
  for (const auto& [key, value] : facts) {
    if (!value.empty()) run.tags[key] = value;
  }
  if (options.uri.empty()) {
    const std::string folder =
        options.dir.text.empty() ? context.run_dir + "/mlruns" : options.dir.text;
    return make_mlflow_files(std::filesystem::absolute(folder).string(), run, context);
  }
  MlflowServerAddress address{options.uri, authorization()};
  while (address.url.ends_with('/')) address.url.pop_back();
  return make_mlflow_server(address, context.run_dir + "/mlflow", run, context);
}

class MlflowTracker final : public Tracker, public Uplink {
 public:
  static constexpr auto kName = "mlflow";
  static constexpr auto kSummary =
      "A run in MLflow's file store or on an MLflow server; histograms are left out.";

  static Schema<MlflowOptions> schema() {
    return Schema<MlflowOptions>()
        .field("uri", &MlflowOptions::uri,
               "Address of an MLflow server. When neither it nor 'dir' is given: "
               "MLFLOW_TRACKING_URI, if that is set.",
               server_address())
        .on_resume(Change::kFree)
        .field("dir", &MlflowOptions::dir,
               "A file store that runs share. When not given: 'mlruns' in the run's folder.")
        .on_resume(Change::kFree)
        .field("experiment", &MlflowOptions::experiment,
               "What the run belongs to; made when there is none of this name.", not_blank())
        .on_resume(Change::kFree)
        .field("name", &MlflowOptions::name, "What MLflow calls the run; default: the run's name.")
        .on_resume(Change::kFree)
        .field("notes", &MlflowOptions::notes, "What is to be remembered of this run.")
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

  bool talks() const override { return sink_->uplink(); }
  bool pending() const override { return sink_->uplink()->pending(); }
  HttpRequest next() override { return sink_->uplink()->next(); }
  Verdict replied(const HttpReply& reply) override { return sink_->uplink()->replied(reply); }
  std::string left_over() const override { return sink_->uplink()->left_over(); }

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

std::string mlflow_key(std::string_view name) {
  std::string key = safe_path(name);
  for (char& c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_-.: /").find(c) != std::string_view::npos;
    if (!plain) c = '_';
  }
  return key.substr(0, kLongestKey);
}

}  // namespace accel
