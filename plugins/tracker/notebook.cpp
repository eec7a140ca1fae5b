// A tracker: where a run's numbers go. This one writes a line of text per logged step.
//
// Only the first rank has trackers, and one thread calls them. On resume, what was written after
// the checkpoint is taken back: those steps come again.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "core/api/tracker.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct NotebookOptions {
  std::string title = "Notebook";
};

class Notebook final : public Tracker {
 public:
  static constexpr auto kName = "example/notebook";
  static constexpr auto kSummary = "Writes notebook.txt into the run's folder, a line per step.";

  static Schema<NotebookOptions> schema() {
    return Schema<NotebookOptions>()
        .field("title", &NotebookOptions::title, "The first line.")
        .on_resume(Change::kFree);
  }

  Notebook(const NotebookOptions& options, const TrackerContext& context)
      : path_(context.run_dir + "/notebook.txt"), file_(nullptr, &std::fclose) {
    const std::string kept = context.first_step > 0 ? lines_until(context.first_step) : "";
    file_.reset(std::fopen(path_.c_str(), "w"));
    if (!file_) throw IoError("cannot write '" + path_ + "'");
    put(options.title + " of " + context.run_name + "\n" + kept);
  }

  void config(const ConfigValues& /*values*/) override {}

  void log(int64_t step, std::span<const Measurement> values) override {
    std::string line = std::to_string(step) + ":";
    for (const auto& [name, value] : values) {
      char number[32];
      line += " " + name + " ";
      line.append(number, std::to_chars(number, number + sizeof number, value).ptr);
    }
    put(line + "\n");
  }

  void text(int64_t step, const std::string& tag, const std::string& text) override {
    put(std::to_string(step) + ": " + tag + " \"" + text + "\"\n");
  }
  void histogram(int64_t, const std::string&, std::span<const float>) override {}
  void image(int64_t, const std::string&, const Picture&) override {}

  void flush(Flush how) override {
    const bool failed = std::fflush(file_.get()) != 0 ||
                        (how == Flush::kDurable && fsync(fileno(file_.get())) != 0);
    if (failed) throw IoError("cannot write '" + path_ + "'");
  }

  void finish(RunStatus /*status*/) override { flush(Flush::kDurable); }
  std::map<std::string, std::string> ids() const override { return {}; }

 private:
  /// What an earlier life of the run has written of steps up to this one.
  std::string lines_until(int64_t last) const {
    std::ifstream in(path_);
    std::string line, kept;
    std::getline(in, line);  // the title
    while (std::getline(in, line)) {
      int64_t step = 0;
      const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
      if (error == std::errc() && step <= last) kept += line + "\n";
    }
    return kept;
  }

  void put(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size()) return;
    throw IoError("cannot write '" + path_ + "'");
  }

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

const Register<Notebook> notebook;

}  // namespace
}  // namespace accel
