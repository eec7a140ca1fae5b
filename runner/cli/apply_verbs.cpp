// evaluate and predict: a trained model on other data.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include "runner/cli/checkpoint_path.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/moved_inputs.h"
#include "runner/cli/use_verbs.h"
#include "runner/job/evaluation_job.h"
#include "runner/job/use_data.h"
#include "runner/loop/evaluate.h"
#include "runner/loop/predict.h"
#include "runner/loop/trained_model.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// Standard input as a file without a name, for datasets that map theirs.
class InputFile {
 public:
  InputFile() : descriptor_(::memfd_create("standard input", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw IoError("there is no room for standard input");
    const std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t written = ::write(descriptor_, bytes.data() + at, bytes.size() - at);
      if (written <= 0) throw IoError("there is no room for standard input");
      at += static_cast<size_t>(written);
    }
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// Lines for a file that comes whole or not at all; "-" is standard output.
class LineFile {
 public:
  explicit LineFile(const std::string& path) : path_(path) {
    if (path_ == "-") return;
    std::error_code error;
    if (fs::exists(fs::symlink_status(path_, error))) {
      throw Error(ExitCode::kRecipe, "'" + path_ + "' is there already",
                  "name a file that is not: nothing is ever written over");
    }
    file_.open(partial(), std::ios::binary | std::ios::trunc);
    if (!file_) throw IoError("cannot write '" + partial() + "'");
  }
  ~LineFile() {
    std::error_code error;
    if (file_.is_open()) fs::remove(partial(), error);
  }
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  void add(const std::string& line) { (path_ == "-" ? std::cout : file_) << line << '\n'; }

  void publish() {
    if (path_ == "-") {
      std::cout.flush();
      if (!std::cout) throw IoError("cannot write to standard output");
      return;
    }
    file_.close();
    std::error_code error;
    if (file_) fs::rename(partial(), path_, error);
    if (!file_ || error) throw IoError("cannot write '" + path_ + "'");
  }

 private:
  std::string partial() const { return path_ + ".partial"; }

  std::string path_;
  std::ofstream file_;
};

/// "path=..." as overrides are written, of a path of any characters.
std::string path_word(const std::string& path) {
  std::string quoted;
  for (const char c : path) quoted += c == '\'' ? "''" : std::string(1, c);
  return "path='" + quoted + "'";
}

/// The categories of a table's features follow from the training data, which is not the input.
void check_categories(const Node& dataset) {
  const Node::Entry* one_hot = dataset.find("one_hot");
  if (!one_hot || !one_hot->node.map()) return;
  for (const Node::Entry& column : *one_hot->node.map()) {
    const Node::List* values = column.node.list();
    if (!column.node.null() && (!values || !values->empty())) continue;
    throw Error(ExitCode::kRecipe,
                "'one_hot' has no values for '" + column.key +
                    "', and those of the input may be others than the model learned",
                "list them: --data 'one_hot." + column.key + "=[...]'");
  }
}

std::unique_ptr<Dataset> open_input(const TrainedModel& trained,
                                    const std::vector<std::string>& words) {
  const Node node = dataset_with(trained.resolved, words, trained.data, *trained.registry);
  require_input(trained, node);
  check_categories(node);
  Diagnostics problems;
  Reading reading{problems, *trained.registry};
  const Ref<Dataset> ref = trained.registry->of<Dataset>().prepare(node, reading);
  problems.check();
  const auto seed = static_cast<uint64_t>(trained.recipe.seed);
  return build(ref, {.seed = seed, .train = false, .targets = false});
}

/// Lays the words over the eval data of the recipe.
void change_data(TrainedModel& trained, const std::vector<std::string>& words) {
  const Node dataset = dataset_with(trained.resolved, words, trained.data, *trained.registry);
  trained.resolved = with_eval_data(std::move(trained.resolved), dataset);
  require_eval_data(trained);
  check_categories(dataset);
  Diagnostics problems;
  Reading reading{problems, *trained.registry};
  trained.recipe = read_recipe(trained.resolved, trained.recipe.name, reading);
}

}  // namespace

ExitCode evaluate_verb(const EvaluateArguments& arguments) {
  DiskFiles files;
  TrainedModel trained =
      load_trained(files, checkpoint_at(files, arguments.source), components_for);
  if (!arguments.data.empty()) change_data(trained, arguments.data);
  if (trained.recipe.data.eval.parts.empty()) {
    throw Error(ExitCode::kRecipe, "the recipe of '" + arguments.source + "' has no eval data",
                "name some with --data, such as --data path=test.csv");
  }
  require_eval_data(trained);
  const auto job =
      evaluation_job({std::move(trained.recipe), std::move(trained.resolved),
                      std::move(trained.data), std::move(trained.model), trained.world},
                     *trained.registry);
  load_task_models(*job, trained.task_weights);
  const auto results = evaluate(*job);
  if (arguments.json) {
    nlohmann::ordered_json line = {
        {"checkpoint", trained.folder}, {"step", trained.step}, {"samples", job->eval_samples}};
    for (const auto& [name, value] : *results) line[name] = value;
    std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return ExitCode::kDone;
  }
  std::cout << trained.folder << ": " << job->eval_samples << " samples\n";
  for (const auto& [name, value] : *results) {
    std::cout << "  " << name << "  " << show_number(value) << '\n';
  }
  return ExitCode::kDone;
}

ExitCode predict_verb(const PredictArguments& arguments) {
  DiskFiles files;
  const TrainedModel trained =
      load_trained(files, checkpoint_at(files, arguments.source), components_for);
  check_predicts(trained);
  std::optional<InputFile> standard;
  if (arguments.input == "-") standard.emplace();
  std::vector<std::string> words = {path_word(standard ? standard->path() : arguments.input)};
  words.insert(words.end(), arguments.data.begin(), arguments.data.end());
  std::shared_ptr<const Dataset> dataset = open_input(trained, words);
  LineFile output(arguments.output);
  predict(trained, std::move(dataset), {arguments.probabilities},
          [&](const std::string& line) { output.add(line); });
  output.publish();
  return ExitCode::kDone;
}

}  // namespace accel
