#include "runner/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>

#include "core/build_info.h"
#include "core/diagnostic.h"
#include "runner/cli/lazy_torch.h"
#include "runner/cli/verbs.h"
#include "runner/loop/signals.h"

namespace accel {
namespace {

/// What the parser fills in and the chosen verb reads.
struct Arguments {
  RecipeArguments recipe;
  std::vector<std::string> recipes;
  std::string error_format = "text";
  std::string key, kind, name, source, target, data;
  bool names = false;
  int64_t steps = 10;
  ConvertArguments convert{{}, {}, "safetensors", {}};
  std::vector<std::string> argv;
  std::function<ExitCode()> verb;
};

void add_recipe(CLI::App& verb, Arguments& to, const char* what) {
  verb.add_option("recipe", to.recipe.path, what)->required();
  verb.add_option("overrides", to.recipe.overrides,
                  "key=value, 'key+=value', 'key!=value' or '~key', as in the recipe");
}

void add_allow(CLI::App& verb, Arguments& to) {
  verb.add_option("--allow", to.recipe.allowed,
                  "accept that this recipe key has changed since the checkpoint")
      ->expected(1)
      ->take_all();
}

CLI::App& add_verb(CLI::App& app, const char* name, const char* help, Arguments& to,
                   std::function<ExitCode()> run) {
  CLI::App* verb = app.add_subcommand(name, help);
  verb->callback([&to, run = std::move(run)] { to.verb = run; });
  return *verb;
}

/// A verb that computes and can be asked to stop: no signal is lost while libtorch is found.
CLI::App& add_training_verb(CLI::App& app, const char* name, const char* help, Arguments& to,
                            std::function<ExitCode()> run) {
  return add_verb(app, name, help, to, [&to, run = std::move(run)] {
    SignalWatch::hold();
    require_torch(to.argv);
    const SignalWatch signals;
    return run();
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

void add_run_verbs(CLI::App& app, Arguments& to) {
  CLI::App& run = add_training_verb(app, "run", "train (the verb may be left out)", to,
                                    [&to] { return run_verb(to.recipe); });
  add_recipe(run, to, "a recipe, YAML or TOML, or builtin:NAME");
  add_allow(run, to);
  CLI::App& resume = add_training_verb(app, "resume", "go on with a run from its newest checkpoint",
                                       to, [&to] { return resume_verb(to.recipe); });
  add_recipe(resume, to, "the run's folder");
  add_allow(resume, to);
  CLI::App& smoke = add_training_verb(app, "smoke", "run recipes small, with a save and a resume",
                                      to, [&to] { return smoke_verb(to.recipes); });
  smoke.add_option("recipes", to.recipes, "recipes")->required();
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
  add_recipe(add_verb(app, "validate", "report everything wrong with a recipe", to,
                      [&to] { return validate_verb(to.recipe); }),
             to, "a recipe");
  add_recipe(add_verb(app, "show", "print a recipe with every default and where it comes from", to,
                      [&to] { return show_verb(to.recipe); }),
             to, "a recipe");
  CLI::App& why = add_verb(app, "why", "tell every layer that set a key", to,
                           [&to] { return why_verb(to.recipe, to.key); });
  why.add_option("key", to.key, "a dotted key, such as optimizer.lr")->required();
  add_recipe(why, to, "a recipe");
}

void add_catalog_verbs(CLI::App& app, Arguments& to) {
  CLI::App& list = add_verb(app, "list", "list the components a recipe can name", to,
                            [&to] { return list_verb(to.kind, to.names); });
  list.add_option("kind", to.kind, "model, dataset, optimizer, ...");
  list.add_flag("--names", to.names, "one name per line");
  CLI::App& explain = add_verb(app, "explain", "tell all options of a component", to,
                               [&to] { return explain_verb(to.kind, to.name); });
  explain.add_option("kind", to.kind, "its kind")->required();
  explain.add_option("name", to.name, "its name")->required();
  add_verb(app, "schema", "print the JSON Schema of recipes, for editors", to,
           [] { return schema_verb(); });
  CLI::App& reference = add_verb(app, "reference", "write the reference pages", to,
                                 [&to] { return reference_verb(to.target); });
  reference.add_option("folder", to.target, "where to")->required();
}

constexpr auto kCheckpointHelp = "a checkpoint, or a run folder for its newest";

void add_convert_verbs(CLI::App& group, Arguments& to) {
  const auto add = [&](const char* name, const char* help) -> CLI::App& {
    CLI::App& verb = add_torch_verb(group, name, help, to,
                                    [&to] { return checkpoint_convert_verb(to.convert); });
    verb.add_option("source", to.convert.source,
                    std::string(kCheckpointHelp) + ", or a model folder")
        ->required();
    verb.add_option("target", to.convert.target, "a folder that is not there yet")->required();
    return verb;
  };
  CLI::App& convert = add("convert", "write a checkpoint or model in another layout");
  convert
      .add_option("--to", to.convert.to,
                  "safetensors or bin: the weights alone; accelerate: what "
                  "save_state() writes; dcp: FSDP's shards")
      ->check(CLI::IsMember(convert_layouts()))
      ->required();
  convert.add_option("--max-shard-size", to.convert.max_shard_size,
                     "cut the weights into files of at most this, such as '5 GB'");
  CLI::App& merge = add("merge", "put a model's shards into one file");
  merge.add_option("--to", to.convert.to, "safetensors (the default) or bin")
      ->check(CLI::IsMember({"safetensors", "bin"}));
}

void add_checkpoint_verbs(CLI::App& app, Arguments& to) {
  CLI::App& group = *app.add_subcommand("checkpoint", "look at checkpoints");
  group.require_subcommand(1);
  add_torch_verb(group, "list", "tell a run's checkpoints and whether they are whole", to,
                 [&to] { return checkpoint_list_verb(to.source); })
      .add_option("run", to.source, "a run folder")
      ->required();
  add_convert_verbs(group, to);
  const char* what = kCheckpointHelp;
  add_torch_verb(group, "inspect", "tell what a checkpoint holds", to,
                 [&to] { return checkpoint_inspect_verb(to.source); })
      .add_option("path", to.source, what)
      ->required();
  add_torch_verb(group, "verify", "compare every file with its checksum", to,
                 [&to] { return checkpoint_verify_verb(to.source); })
      .add_option("path", to.source, "a checkpoint, or a run folder for all of its own")
      ->required();
  CLI::App& diff = add_torch_verb(group, "diff", "tell in what two checkpoints differ", to,
                                  [&to] { return checkpoint_diff_verb(to.source, to.target); });
  diff.add_option("first", to.source, what)->required();
  diff.add_option("second", to.target, what)->required();
}

void add_file_verbs(CLI::App& app, Arguments& to) {
  CLI::App& make = add_verb(app, "new", "write a recipe for some data", to,
                            [&to] { return new_verb(to.target, to.data); });
  make.add_option("file", to.target, "the recipe to write")->required();
  make.add_option("data", to.data, "a file or folder to look at; none: a built-in dataset");
  CLI::App& copy = add_verb(app, "cp", "copy a built-in recipe", to,
                            [&to] { return copy_verb(to.source, to.target); });
  copy.add_option("source", to.source, "builtin:NAME")->required();
  copy.add_option("target", to.target, "the file to write; default: NAME.yaml");
}

/// `accel-run recipe.yaml` is short for `accel-run run recipe.yaml`.
void name_the_verb(const CLI::App& app, std::vector<std::string>& words) {
  auto first = words.begin();
  while (first != words.end() && first->starts_with('-')) {
    first += *first == "--error-format" && words.end() - first > 1 ? 2 : 1;
  }
  if (first == words.end()) return;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_name() == *first) return;
  }
  words.insert(first, "run");
}

void print(const Error& error, bool json) {
  if (const auto* recipe = dynamic_cast<const RecipeError*>(&error)) {
    for (const Diagnostic& problem : recipe->diagnostics()) {
      std::cerr << (json ? render_json(problem) : render(problem));
    }
  } else if (json) {
    std::cerr << render_json({{}, error.what(), error.hint()});
  } else {
    std::cerr << "error: " << error.what() << '\n';
    if (!error.hint().empty()) std::cerr << "  hint: " << error.hint() << '\n';
  }
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
  add_checkpoint_verbs(app, to);
  add_file_verbs(app, to);

  std::vector<std::string> words(argv.begin() + 1, argv.end());
  name_the_verb(app, words);
  // The number a user would count to: words before the overrides, an implied verb not included.
  to.recipe.first_override = static_cast<int>(argv.size());
  to.argv = argv;
  try {
    std::reverse(words.begin(), words.end());
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : static_cast<int>(ExitCode::kRecipe);
  }
  to.recipe.first_override -= static_cast<int>(to.recipe.overrides.size());
  try {
    return static_cast<int>(to.verb());
  } catch (const Error& error) {
    print(error, to.error_format == "json");
    return static_cast<int>(error.code());
  }
}

}  // namespace accel
