// The verbs that use what was trained.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text_generator.h"

namespace CLI {
class App;
}

namespace accel {

struct GenerateArguments {
  std::string source;                ///< a run folder, a checkpoint or a Hugging Face folder
  std::string tokenizer;             ///< instead of the source's own
  std::vector<std::string> prompts;  ///< of these and of the lines of the file
  std::string prompt_file;           ///< "-": standard input; "": none
  SamplingOptions sampling;
  bool json = false;
};

/// Writes what the model makes of each prompt to standard output.
ExitCode generate_verb(const GenerateArguments& arguments);

struct EvaluateArguments {
  std::string source;             ///< a run folder or a checkpoint
  std::vector<std::string> data;  ///< options of the eval dataset, "path=test.csv"
  bool json = false;
};

/// Prints the metrics of a checkpoint on its recipe's eval data.
ExitCode evaluate_verb(const EvaluateArguments& arguments);

struct PredictArguments {
  std::string source;             ///< a run folder or a checkpoint
  std::string input;              ///< what the recipe's dataset reads; "-": standard input
  std::string output = "-";       ///< a file that is not there yet; "-": standard output
  std::vector<std::string> data;  ///< options of the dataset beside its path
  bool probabilities = false;
};

/// Writes a line of JSON for each sample of the input.
ExitCode predict_verb(const PredictArguments& arguments);

/// Adds the verbs to `app`. The chosen one is put into `verb`, and loads libtorch first, for which
/// it needs the command line `argv`. All three outlive the parse.
void add_use_verbs(CLI::App& app, const std::vector<std::string>& argv,
                   std::function<ExitCode()>& verb);

}  // namespace accel
