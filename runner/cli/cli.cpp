#include "runner/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <functional>
#include <iostream>
#include <optional>

#include "core/build_info.h"
#include "core/warning_format.h"
#include "runner/cli/checkpoint_cli.h"
#include "runner/cli/completion.h"
#include "runner/cli/completion_words.h"
#include "runner/cli/error_text.h"
#include "runner/cli/lazy_torch.h"
#include "runner/cli/plugin_verbs.h"
#include "runner/cli/sweep_verb.h"
#include "runner/cli/tokenizer_verbs.h"
#include "runner/cli/use_verbs.h"
#include "runner/cli/verbs.h"
#include "runner/cli/world.h"
#include "runner/loop/signals.h"

namespace accel {
namespace {

/// What the parser fills in and the chosen verb reads.
struct Arguments {
  RecipeArguments recipe;
  std::vector<std::string> recipes;
  std::vector<std::string> plugins;
  std::string error_format = "text";
  std::string key, kind, name, source, target, data, ranks;
  std::string mixed_precision = "no";
  bool names = false;
  bool once = false;
  bool of_sweeps = false;
  int64_t steps = 10;
  double wait = 60;  ///< seconds
  int64_t processes = 2;
  DownloadArguments download;
  ImportArguments import_from;
  SweepArguments sweep;
  std::vector<std::string> argv;
  /// What the verb does before it may load libtorch, if anything; false: that was all.
  std::function<bool()> prepare;
  std::function<ExitCode()> verb;
};

void add_recipe(CLI::App& verb, Arguments& to, const char* what) {
  verb.add_option("recipe", to.recipe.path, what)->required();
  verb.add_option("overrides", to.recipe.overrides,
                  "key=value, 'key+=value', 'key!=value' or '~key', as in the recipe");
}

void add_config(CLI::App& verb, Arguments& to) {
  verb.add_option("--config", to.recipe.config,
                  "where to run: Accelerate's config file, or one such as in configs/");
}

void add_allow(CLI::App& verb, Arguments& to) {
  verb.add_option("--allow", to.recipe.allowed,
                  "accept that this recipe key has changed since the checkpoint")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

/// What `smoke` and `verify-resume` tell the ranks that they start.
void add_trial(CLI::App& verb, Arguments& to) {
  verb.add_option("--run-dir", to.recipe.run_dir)->group("");
  verb.add_option("--stop-after", to.recipe.stop_after)->group("");
  verb.add_flag("--smoke-section", to.recipe.smoke)->group("");
}

CLI::App& add_verb(CLI::App& app, const char* name, const char* help, Arguments& to,
                   std::function<ExitCode()> run) {
  CLI::App* verb = app.add_subcommand(name, help);
  verb->callback([&to, run = std::move(run)] { to.verb = run; });
  return *verb;
}

struct TrainingVerb {
  /// What it does instead in a process that is to start others; nothing in one that trains itself.
  /// Called without libtorch.
  std::function<std::optional<ExitCode>()> launch;
  std::function<ExitCode(RankSession&)> run;
};

/// A verb that computes and can be asked to stop: no signal is lost while libtorch is found.
CLI::App& add_training_verb(CLI::App& app, const char* name, const char* help, Arguments& to,
                            TrainingVerb verb) {
  return add_verb(app, name, help, to, [&to, verb = std::move(verb)] {
    SignalWatch::hold();
    torch_is_there();  // gives the recipe the user's environment
    if (const std::optional<ExitCode> code = verb.launch()) return *code;
    require_torch(to.argv);
    const SignalWatch signals;
    RankSession session;
    return session.guarded(to.recipe.json, [&] { return verb.run(session); });
  });
}

/// A verb that computes.
CLI::App& add_torch_verb(CLI::App& app, const char* name, const char* help, Arguments& to,
                         std::function<ExitCode()> run) {
  return add_verb(app, name, help, to, [&to, run = std::move(run)] {
    require_torch(to.argv);
    return run();
  });
}

void add_smoke_verb(CLI::App& app, Arguments& to) {
  CLI::App& smoke = add_training_verb(
      app, "smoke", "run recipes small, with a save and a resume", to,
      {[] { return std::nullopt; },
       [&to](RankSession&) { return smoke_verb(to.recipe, to.recipes, to.argv); }});
  smoke.add_option("recipes", to.recipes, "recipes, and behind them key=value for all of them")
      ->required();
  add_config(smoke, to);
}

void add_run_verbs(CLI::App& app, Arguments& to) {
  CLI::App& run =
      add_training_verb(app, "run", "train (the verb may be left out)", to,
                        {[&to] { return launch_run(to.recipe, to.argv); },
                         [&to](RankSession& session) { return run_verb(to.recipe, session); }});
  add_recipe(run, to, "a recipe, YAML or TOML, or builtin:NAME");
  add_allow(run, to);
  add_trial(run, to);
  add_config(run, to);
  // It has Accelerate's flags, which are read elsewhere, and before libtorch is loaded.
  CLI::App& launch = add_training_verb(
      app, "launch", "train as 'accelerate launch' does: its flags, then a recipe", to,
      {[&to] { return launch_run(to.recipe, to.argv); },
       [&to](RankSession& session) { return run_verb(to.recipe, session); }});
  launch.fallthrough(false);
  launch.set_help_flag();
  launch.prefix_command();
  launch.parse_complete_callback([&launch, &to] {
    to.prepare = [&to, words = launch.remaining()] {
      const auto first = static_cast<int>(to.argv.size() - words.size());
      const auto arguments = launch_arguments(words, first);
      if (arguments) to.recipe = *arguments;
      return arguments.has_value();
    };
  });
  CLI::App& resume =
      add_training_verb(app, "resume", "go on with a run from its newest checkpoint", to,
                        {[&to] { return launch_resume(to.recipe, to.argv); },
                         [&to](RankSession& session) { return resume_verb(to.recipe, session); }});
  add_recipe(resume, to, "the run's folder");
  add_allow(resume, to);
  add_smoke_verb(app, to);
  CLI::App& sweep = add_verb(app, "sweep", "run a recipe with many values, some at once", to,
                             [&to] { return sweep_verb(to.sweep); });
  sweep.add_option("file", to.sweep.path, "what to try: see docs/sweep.md")->required();
  sweep.add_option("--config", to.sweep.config, "where to run each trial");
  sweep.add_flag("--dry-run", to.sweep.dry_run, "list the trials, and run none");
  sweep.add_flag("--retry", to.sweep.retry, "run trials again that failed");
  CLI::App& test = add_training_verb(
      app, "test", "test what training with several processes needs, on this machine", to,
      {[&to] { return launch_test(to.processes, to.recipe.json, to.argv); },
       [](RankSession& session) { return test_verb(session); }});
  test.add_option("--num_processes,--num-processes", to.processes, "1, 2, 4 or 8; default: 2")
      ->check(CLI::IsMember({1, 2, 4, 8}));
  CLI::App& verify = add_torch_verb(app, "verify-resume",
                                    "kill and resume a recipe, and compare with a straight run", to,
                                    [&to] { return verify_resume_verb(to.recipe, to.steps); });
  add_recipe(verify, to, "a recipe");
  verify.add_option("--steps", to.steps, "steps before the kill, and after it; default: 10")
      ->check(CLI::Range(1, 1'000'000'000));
  CLI::App& diff = add_torch_verb(app, "diff", "tell in what two runs differ", to,
                                  [&to] { return diff_verb(to.source, to.target); });
  diff.add_option("first", to.source, "a run folder")->required();
  diff.add_option("second", to.target, "another")->required();
}

void add_recipe_verbs(CLI::App& app, Arguments& to) {
  CLI::App& validate = add_verb(app, "validate", "report everything wrong with a recipe", to,
                                [&to] { return validate_verb(to.recipe); });
  CLI::App& show =
      add_verb(app, "show", "print a recipe with every default and where it comes from", to,
               [&to] { return show_verb(to.recipe); });
  CLI::App& why = add_verb(app, "why", "tell every layer that set a key", to,
                           [&to] { return why_verb(to.recipe, to.key); });
  why.add_option("key", to.key, "a dotted key, such as optimizer.lr")->required();
  CLI::App& plan = add_torch_verb(app, "plan", "tell what a recipe takes, without training", to,
                                  [&to] { return plan_verb(to.recipe, to.ranks, to.names); });
  plan.add_option("--ranks", to.ranks, "numbers of ranks to plan for, such as 1,2,8");
  plan.add_flag("--names", to.names, "only tell under which names the run logs numbers");
  CLI::App& estimate = add_verb(app, "estimate-memory", "tell what a Hugging Face model takes", to,
                                [&to] { return estimate_verb(to.source, to.recipes); });
  estimate.add_option("model", to.source, "a model folder")->required();
  estimate.add_option("--dtypes", to.recipes, "float32, float16, int8, int4; default: all")
      ->check(CLI::IsMember(estimate_types()));
  for (CLI::App* verb : {&validate, &show, &why, &plan}) {
    add_recipe(*verb, to, "a recipe");
    add_config(*verb, to);
  }
}

void add_catalog_verbs(CLI::App& app, Arguments& to) {
  CLI::App& list = add_verb(app, "list", "list the components a recipe can name", to,
                            [&to] { return list_verb(to.plugins, to.kind, to.names); });
  list.add_option("kind", to.kind, "model, dataset, optimizer, ...");
  list.add_flag("--names", to.names, "one name per line");
  CLI::App& explain = add_verb(app, "explain", "tell all options of a component", to,
                               [&to] { return explain_verb(to.plugins, to.kind, to.name); });
  explain.add_option("kind", to.kind, "its kind")->required();
  explain.add_option("name", to.name, "its name")->required();
  CLI::App& schema = add_verb(app, "schema", "print the JSON Schema of recipes, for editors", to,
                              [&to] { return schema_verb(to.plugins, to.of_sweeps); });
  schema.add_flag("--sweep", to.of_sweeps, "that of sweeps instead");
  for (CLI::App* verb : {&list, &explain, &schema}) {
    verb->add_option("--plugin", to.plugins, "a plugin's file, to be told of too")
        ->expected(1)
        ->take_all()
        ->allow_extra_args(false);
  }
  add_verb(app, "lsp", "serve an editor: see docs/editors.md", to, [] { return editor_verb(); });
  CLI::App& reference = add_verb(app, "reference", "write the reference pages", to,
                                 [&to] { return reference_verb(to.target); });
  reference.add_option("folder", to.target, "where to")->required();
}

void add_file_verbs(CLI::App& app, Arguments& to) {
  CLI::App& make = add_verb(app, "new", "write a recipe for some data", to,
                            [&to] { return new_verb(to.target, to.data); });
  make.add_option("file", to.target, "the recipe to write")->required();
  make.add_option("data", to.data, "a file or folder to look at; none: a built-in dataset");
  CLI::App& download = add_verb(app, "download", "fetch a model or dataset", to,
                                [&to] { return download_verb(to.download); });
  download
      .add_option("what", to.download.what,
                  "hf:organisation/name, hf:datasets/organisation/name, either with @revision; "
                  "mnist, cifar10 or sst2")
      ->required();
  download.add_option("--to", to.download.target,
                      "a folder; default: the hub's cache, or the user's");
  download.add_option("--files", to.download.files,
                      "of the hub only files like these, such as 'en/*.parquet'");
  CLI::App& import = add_verb(app, "import", "make a recipe of another trainer's config", to,
                              [&to] { return import_verb(to.import_from); });
  import.add_option("file", to.import_from.source, "a config in YAML or JSON")->required();
  import.add_option("--to", to.import_from.target, "the recipe to write; default: print it");
  import
      .add_option("--from", to.import_from.peer,
                  "whose it is, where its keys do not tell: trainer, axolotl, llama-factory, "
                  "torchtune, accelerate")
      ->check(CLI::IsMember({"trainer", "axolotl", "llama-factory", "torchtune", "accelerate"}));
  CLI::App& copy = add_verb(app, "cp", "copy a built-in recipe", to,
                            [&to] { return copy_verb(to.source, to.target); });
  copy.add_option("source", to.source, "builtin:NAME")->required();
  copy.add_option("target", to.target, "the file to write; default: NAME.yaml");
}

void add_view_verbs(CLI::App& app, Arguments& to) {
  CLI::App& report = add_verb(app, "report", "write a page on a run, or on several side by side",
                              to, [&to] { return report_verb(to.recipes, to.target); });
  report.add_option("runs", to.recipes, "run folders, running or ended, however")->required();
  report.add_option("--output", to.target, "the file; default: report.html in the run's folder");
  CLI::App& top = add_verb(app, "top", "watch a run from another terminal", to,
                           [&to] { return top_verb(to.source, to.once); });
  top.add_option("run", to.source, "a run folder")->required();
  top.add_flag("--once", to.once, "print one picture and end");
  CLI::App& ctl = add_verb(app, "ctl", "tell a run what to do while it trains", to,
                           [&to] { return ctl_verb(to.source, to.recipes, to.wait); });
  ctl.add_option("run", to.source, "a run folder")->required();
  ctl.add_option("orders", to.recipes, "save, eval, stop, pause, resume, or key=value")->required();
  ctl.add_option("--wait", to.wait, "seconds to wait for an answer; default: 60");
  CLI::App& completion =
      add_verb(app, "completion", "print a shell's completion of verbs, flags and recipe keys", to,
               [&to, &app] {
                 std::cout << completion_script(to.kind, completion_words(app));
                 return ExitCode::kDone;
               });
  completion.add_option("shell", to.kind, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

bool is_flag_of_run(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  return name == "--config" || name == "--allow";
}

/// `accel-run recipe.yaml` is short for `accel-run run recipe.yaml`.
void name_the_verb(const CLI::App& app, std::vector<std::string>& words) {
  auto first = words.begin();
  while (first != words.end() && first->starts_with('-') && !is_flag_of_run(*first)) {
    first += *first == "--error-format" && words.end() - first > 1 ? 2 : 1;
  }
  if (first == words.end()) return;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_name() == *first) return;
  }
  words.insert(first, "run");
}

void add_machine_verbs(CLI::App& app, Arguments& to) {
  const auto add_file = [&to](CLI::App& verb) {
    verb.add_option("--config_file,--config-file", to.target,
                    "the file; default: where Accelerate keeps it");
  };
  CLI::App& config = *app.add_subcommand("config", "ask where to run, and write it for 'launch'");
  config.require_subcommand(0, 1);
  config.callback([&config, &to] {
    if (config.get_subcommands().empty()) to.verb = [&to] { return config_verb(to.target); };
  });
  add_file(config);
  CLI::App& standard =
      add_verb(config, "default", "write a config for one process, without questions", to,
               [&to] { return config_default_verb(to.target, to.mixed_precision); });
  standard
      .add_option("--mixed_precision,--mixed-precision", to.mixed_precision,
                  "no (the default), fp16 or bf16")
      ->check(CLI::IsMember({"no", "fp16", "bf16"}));
  add_file(standard);
  add_file(add_verb(config, "update", "give an old config the keys of today", to,
                    [&to] { return config_update_verb(to.target); }));
  add_file(add_verb(app, "env", "print what a report of a problem should tell of this machine", to,
                    [&to] { return env_verb(to.target); }));
}

/// What CLI11 found wrong with the words, in this program's form.
Error misuse(const CLI::ParseError& error) {
  std::string text = error.what();
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return Error(ExitCode::kRecipe, text,
               "'accel-run --help' shows the verbs, 'accel-run VERB --help' what one takes");
}

}  // namespace

int run_cli(std::vector<std::string> argv) {
  Arguments to;
  CLI::App app("Trains what a recipe says: accel-run RECIPE [key=value ...]", "accel-run");
  app.require_subcommand(1);
  app.set_version_flag("--version", "accel-run " + std::string(build_info().version) + " (" +
                                        std::string(build_info().commit) + ", libtorch " +
                                        std::string(build_info().torch) + ")");
  app.add_option("--error-format", to.error_format, "how errors are printed: text or json")
      ->check(CLI::IsMember({"text", "json"}));
  app.fallthrough();
  add_run_verbs(app, to);
  add_recipe_verbs(app, to);
  add_catalog_verbs(app, to);
  add_checkpoint_verbs(app, to.argv, to.verb);
  add_file_verbs(app, to);
  add_machine_verbs(app, to);
  add_tokenizer_verbs(app, to.verb);
  add_plugin_verbs(app, to.argv, to.verb);
  add_use_verbs(app, to.argv, to.verb);
  add_view_verbs(app, to);

  std::vector<std::string> words(argv.begin() + 1, argv.end());
  name_the_verb(app, words);
  to.argv = argv;
  try {
    std::reverse(words.begin(), words.end());
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::cerr << error_text(misuse(error), to.error_format == "json");
    return static_cast<int>(ExitCode::kRecipe);
  }
  if (!to.recipe.overrides.empty()) {
    // The number a user would count to: an implied verb is no word.
    const auto first = std::find(argv.begin(), argv.end(), to.recipe.overrides.front());
    to.recipe.first_override = static_cast<int>(first - argv.begin());
  }
  try {
    warn_as_json(to.error_format == "json");
    if (to.prepare && !to.prepare()) return static_cast<int>(ExitCode::kDone);
    to.recipe.json = to.error_format == "json";
    return static_cast<int>(to.verb());
  } catch (const Error& error) {
    std::cerr << error_text(error, to.error_format == "json");
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::cerr << error_text(error, to.error_format == "json");
    return static_cast<int>(exit_code_of(error));
  }
}

}  // namespace accel
