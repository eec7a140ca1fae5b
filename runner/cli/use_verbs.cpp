#include "runner/cli/use_verbs.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "runner/cli/lazy_torch.h"

namespace accel {
namespace {

struct UseArguments {
  GenerateArguments generate;
  EvaluateArguments evaluate;
  PredictArguments predict;
};

constexpr auto kSourceHelp = "a run folder, or one of its checkpoints";

void add_sampling(CLI::App& verb, SamplingOptions& to) {
  verb.add_option("--max-new-tokens", to.max_new_tokens, "tokens to add at most; default: 100")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  verb.add_option("--temperature", to.temperature,
                  "0: always the likeliest token; default: 1, the model's own chances")
      ->check(CLI::Range(0.0, 1000.0));
  verb.add_option("--top-k", to.top_k, "choose among so many of the likeliest; default: all")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  verb.add_option("--top-p", to.top_p,
                  "choose among the likeliest that together have this share; default: 1")
      ->check(CLI::Range(1e-9, 1.0));
  verb.add_option("--seed", to.seed, "of what is drawn; default: 42");
}

void add_generate(CLI::App& verb, GenerateArguments& to) {
  verb.add_option("source", to.source,
                  "a run folder, a checkpoint, or a model's Hugging Face folder")
      ->required();
  verb.add_option("--prompt", to.prompts, "the text to go on from; may be repeated")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb.add_option("--prompt-file", to.prompt_file,
                  "a file of prompts, one a line; '-': standard input");
  verb.add_option("--tokenizer", to.tokenizer,
                  "a tokenizer.json, or the folder with one, where the source has none");
  add_sampling(verb, to.sampling);
  verb.add_flag("--json", to.json, "print an object a line for each prompt");
}

void add_data(CLI::App& verb, std::vector<std::string>& to, const char* help) {
  verb.add_option("--data", to, help)->expected(1)->take_all()->allow_extra_args(false);
}

void add_evaluate(CLI::App& verb, EvaluateArguments& to) {
  verb.add_option("source", to.source, kSourceHelp)->required();
  add_data(verb, to.data, "key=value of the eval dataset, such as path=test.csv; may be repeated");
  verb.add_flag("--json", to.json, "print one JSON object");
}

void add_predict(CLI::App& verb, PredictArguments& to) {
  verb.add_option("source", to.source, kSourceHelp)->required();
  verb.add_option("--input", to.input,
                  "a file or folder such as the run's data, without targets; '-': standard input")
      ->required();
  verb.add_option("--output", to.output,
                  "a file that is not there yet; default: '-', standard output");
  add_data(verb, to.data, "key=value of the dataset, where it is not as in the recipe");
  verb.add_flag("--probabilities", to.probabilities, "tell those of all classes");
}

}  // namespace

void add_use_verbs(CLI::App& app, const std::vector<std::string>& argv,
                   std::function<ExitCode()>& verb) {
  const auto to = std::make_shared<UseArguments>();
  const auto add = [&](const char* name, const char* help,
                       const std::function<ExitCode(const UseArguments&)>& run) -> CLI::App& {
    CLI::App& added = *app.add_subcommand(name, help);
    added.callback([to, run, &argv, &verb] {
      verb = [to, run, &argv] {
        require_torch(argv);
        return run(*to);
      };
    });
    return added;
  };
  add_generate(add("generate", "let a language model go on from a prompt",
                   [](const UseArguments& given) { return generate_verb(given.generate); }),
               to->generate);
  add_evaluate(add("evaluate", "tell a checkpoint's metrics on its eval data, or on other data",
                   [](const UseArguments& given) { return evaluate_verb(given.evaluate); }),
               to->evaluate);
  add_predict(add("predict", "write what a model makes of each row, image or text",
                  [](const UseArguments& given) { return predict_verb(given.predict); }),
              to->predict);
}

}  // namespace accel
