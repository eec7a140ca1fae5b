// validate, show, why, list, explain, schema, reference, new and cp.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "core/base/hardware_info.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/recipe/catalog_text.h"
#include "core/recipe/json_schema.h"
#include "core/recipe/reference.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/world.h"
#include "runner/draft/new_recipe.h"
#include "runner/launch/memory_limits.h"
#include "runner/plan/memory_check.h"
#include "runner/plan/model_check.h"
#include "runner/startup/lazy_torch.h"
#include "runner/submit/read_submit.h"
#include "runner/sweep/sweep_file.h"
#include "train/recipe/model_size.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

const Node* value_at(const Node& tree, const std::string& key) {
  const Node* node = &tree;
  size_t begin = 0;
  while (begin <= key.size()) {
    const size_t end = std::min(key.find('.', begin), key.size());
    const std::string word = key.substr(begin, end - begin);
    const Node* next = nullptr;
    if (const Node::Entry* entry = node->find(word)) {
      next = &entry->node;
    } else if (node->list()) {
      const auto index = parse_integer({word}).value;
      const auto size = static_cast<int64_t>(node->list()->size());
      if (index && *index >= 0 && *index < size)
        next = &(*node->list())[static_cast<size_t>(*index)];
    }
    if (!next) return nullptr;
    node = next;
    begin = end + 1;
  }
  return node;
}

const char* effect_text(Assignment::Effect effect) {
  return effect == Assignment::Effect::kSet        ? "sets"
         : effect == Assignment::Effect::kAppended ? "appends"
                                                   : "drops, by changing the type,";
}

/// Throws RecipeError for a section `submit` of the config that is no job.
void check_submit(const LoadedRecipe& recipe) {
  if (recipe.submit.null()) return;
  Diagnostics problems;
  read_submit(recipe.submit, problems);
  problems.check();
}

/// This machine's memory and the ranks that the recipe starts on it.
MachineMemory machine_for(const AcceleratorSection& section) {
  const int64_t machines = std::max<int64_t>(1, section.num_machines);
  const int64_t ranks = section.num_processes.value_or(1);
  const int64_t here = std::max<int64_t>(1, (ranks + machines - 1) / machines);
  return {available_memory(here), here};
}

/// Warns of options that only a run can check.
void check_model_options(const RecipeArguments& arguments, const LoadedRecipe& recipe,
                         const std::vector<std::string>& options) {
  if (options.empty()) return;
  if (check_with_model(options, recipe.options, recipe.resolved, *recipe.registry)) return;
  warn(text(
      "{} {} not checked: the model is not built without its data; 'accel-run plan {}' does it",
      quoted_list(options), options.size() == 1 ? "is" : "are", arguments.path));
}

ExitCode validate_verb(const RecipeArguments& arguments, const std::vector<std::string>& argv) {
  const LoadedRecipe recipe = load_runnable(arguments);
  check_submit(recipe);
  check_ranks(recipe.options, recipe.resolved);
  check_model_size(recipe.resolved, recipe.options.model.type);
  const MachineMemory machine = machine_for(recipe.options.accelerator);
  const DeviceChoice device = recipe.options.accelerator.wanted_device();
  const bool on_gpu =
      device == DeviceChoice::kCuda || (device == DeviceChoice::kAuto && gpus_here() > 0);
  const bool is_large = !on_gpu && may_exceed(recipe.resolved, machine);
  const std::vector<std::string> options = model_options(recipe.resolved);
  // Executes the program again, so that nothing may be printed before.
  if (is_large || !options.empty()) require_torch(argv);
  report_layers(arguments, recipe);
  check_model_options(arguments, recipe, options);
  if (is_large) {
    print_warnings(memory_warnings(recipe.options, recipe.resolved, *recipe.registry, machine));
  }
  if (device == DeviceChoice::kCuda && gpus_here() == 0) {
    warn(
        "the recipe needs a GPU and this machine has none: it is validated for a machine with one");
  }
  say(text("{}: valid", arguments.path));
  return ExitCode::kDone;
}

ExitCode show_verb(const RecipeArguments& arguments) {
  const LoadedRecipe recipe = load_recipe(arguments);
  report_warnings(recipe);
  std::cout << to_yaml(recipe.resolved, &origin_of);
  return ExitCode::kDone;
}

ExitCode why_verb(const RecipeArguments& arguments, const std::string& asked) {
  const LoadedRecipe recipe = load_recipe(arguments);
  report_warnings(recipe);
  const std::string key = current_key(asked, recipe);
  const Node* value = value_at(recipe.resolved, key);
  const History history = assignments_of(recipe.composition.history, key);
  if (!value && history.empty()) {
    throw Error(ExitCode::kRecipe, text("the recipe has no '{}'", key),
                text("'accel-run show {}' prints every key", arguments.path));
  }
  say(text("{} is {}", key, value ? detail::inline_text(*value) : "not set"));
  for (const Assignment& assignment : history) {
    say(text("  {} {} {}: {}", origin_of(assignment.value), effect_text(assignment.effect),
             assignment.key, detail::inline_text(assignment.value)));
  }
  if (history.empty()) say("  no layer sets it: this is the default");
  return ExitCode::kDone;
}

ExitCode list_verb(const std::vector<std::string>& plugins, const std::string& kind, bool names) {
  const Registry all = components_with(plugins);
  if (!kind.empty()) catalog_of(all, kind);
  if (!names) {
    std::cout << list_text(all, kind);
    return ExitCode::kDone;
  }
  for (const CatalogIndex* catalog : all.all()) {
    if (!kind.empty() && catalog->kind() != kind) continue;
    for (const std::string& name : catalog->names()) std::cout << name << '\n';
  }
  return ExitCode::kDone;
}

ExitCode explain_verb(const std::vector<std::string>& plugins, const std::string& kind,
                      const std::string& name) {
  const Registry all = components_with(plugins);
  std::cout << (name.empty() ? explain_word(kind, RecipeOptions::schema().info(), all)
                             : explain_text(catalog_of(all, kind), name));
  return ExitCode::kDone;
}

ExitCode schema_verb(const std::vector<std::string>& plugins, bool of_sweeps) {
  if (of_sweeps) {
    std::cout << json_schema(SweepOptions::schema().info(), Registry());
    return ExitCode::kDone;
  }
  std::cout << json_schema(RecipeOptions::schema().info(), components_with(plugins));
  return ExitCode::kDone;
}

ExitCode reference_verb(const std::string& folder) {
  fs::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream out(fs::path(folder) / name);
    out << text;
    if (!out) throw IoError(accel::text("cannot write '{}' in '{}'", name, folder));
  };
  write("recipe.md", recipe_reference(RecipeOptions::schema().info()));
  for (const CatalogIndex* catalog : components().all()) {
    write(catalog->kind() + ".md", reference_page(*catalog));
  }
  return ExitCode::kDone;
}

ExitCode new_verb(const DraftRequest& given) {
  const DraftRequest request = named_recipe(given);
  check_new_file(request.recipe);
  const NewRecipe made = new_recipe(request);
  write_new_file(request.recipe, made.text);
  for (const std::string& line : made.lines) say(printable(line));
  if (made.first_command.empty()) {
    say(text("wrote {}; run it with: accel-run {}", request.recipe, request.recipe));
  } else {
    say(text("wrote {}; first run: {}", request.recipe, made.first_command));
    say(text("then: accel-run {}", request.recipe));
  }
  return ExitCode::kDone;
}

ExitCode copy_verb(const std::string& source, const std::string& target) {
  constexpr std::string_view kPrefix = "builtin:";
  const std::string name = source.starts_with(kPrefix) ? source.substr(kPrefix.size()) : source;
  const fs::path from = fs::path(builtin_folder()) / (name + ".yaml");
  if (!fs::is_regular_file(from)) {
    std::vector<std::string> names;
    std::error_code missing;
    for (const auto& entry : fs::recursive_directory_iterator(builtin_folder(), missing)) {
      if (entry.path().extension() != ".yaml") continue;
      names.push_back(fs::relative(entry.path(), builtin_folder()).replace_extension().string());
    }
    std::sort(names.begin(), names.end());
    if (names.empty()) {
      throw Error(ExitCode::kOther,
                  accel::text("the built-in recipes are not in '{}'", builtin_folder()),
                  "reinstall accel-run with its recipes");
    }
    const std::string near = did_you_mean(name, names);
    throw Error(ExitCode::kRecipe, accel::text("there is no built-in recipe '{}'", name),
                near.empty() ? accel::text("there are {}", joined(names)) : near);
  }
  std::ifstream in(from);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const fs::path to = target.empty() ? fs::path(from.filename()) : fs::path(target);
  write_new_file(to, text);
  say(accel::text("wrote {}", to.string()));
  return ExitCode::kDone;
}

}  // namespace

void add_recipe_verbs(VerbTable& verbs) {
  struct WhyArguments {
    RecipeArguments recipe;
    std::string key;
  };
  const auto to = std::make_shared<RecipeArguments>();
  const auto question = std::make_shared<WhyArguments>();
  CLI::App& validate = verbs.add("validate", "validate a recipe without training",
                                 [to, &verbs] { return validate_verb(*to, verbs.argv()); });
  CLI::App& show = verbs.add("show", "print a recipe with every default and its origin",
                             [to] { return show_verb(*to); });
  CLI::App& why = verbs.add("why", "show which layer set a key",
                            [question] { return why_verb(question->recipe, question->key); });
  why.add_option("key", question->key, "a dotted key, such as optimizer.lr")->required();
  for (CLI::App* verb : {&validate, &show, &why}) {
    RecipeArguments& recipe = verb == &why ? question->recipe : *to;
    verbs.add_recipe(*verb, recipe, "a recipe");
    add_config(*verb, recipe.config);
  }
}

namespace {

void add_new_verb(VerbTable& verbs) {
  const auto to = std::make_shared<DraftRequest>();
  CLI::App& make = verbs.add("new", "write a recipe for a dataset", [to] { return new_verb(*to); });
  make.add_option("recipe", to->recipe,
                  "the recipe to write; default: NAME.yaml for the data NAME");
  make.add_option("--data,data", to->data, "a file or folder of data; default: a built-in dataset");
  make.add_option(
          "--as", to->as,
          "train on the rows as chat, text, classification, tags or preference; default: as their "
          "fields say")
      ->check(CLI::IsMember({"chat", "text", "classification", "tags", "preference"}));
  make.add_option("--target", to->target, "the column to predict; default: by name, or the last");
  make.add_option("--tokenizer", to->tokenizer,
                  "a tokenizer.json, or its folder; default: one to be trained on the data");
  make.add_option("--model", to->model,
                  "a Hugging Face folder to fine-tune; default: a small model without weights");
}

}  // namespace

void add_catalog_verbs(VerbTable& verbs) {
  struct CatalogArguments {
    std::vector<std::string> plugins;
    std::string kind, name;
    bool names = false, sweeps = false;
  };
  const auto to = std::make_shared<CatalogArguments>();
  CLI::App& list = verbs.add("list", "list the components that a recipe can use",
                             [to] { return list_verb(to->plugins, to->kind, to->names); });
  list.add_option("kind", to->kind, "model, dataset, optimizer, ...");
  list.add_flag("--names", to->names, "one name per line");
  CLI::App& explain = verbs.add("explain", "explain a recipe key, or the options of a component",
                                [to] { return explain_verb(to->plugins, to->kind, to->name); });
  explain
      .add_option("word", to->kind,
                  "a key such as train.batch or adamw.lr, a component, or a kind and its name")
      ->required();
  explain.add_option("name", to->name, "the name of a component of that kind");
  CLI::App& schema = verbs.add("schema", "print the JSON Schema of recipes, for editors",
                               [to] { return schema_verb(to->plugins, to->sweeps); });
  schema.add_flag("--sweep", to->sweeps, "the schema of sweeps instead");
  for (CLI::App* verb : {&list, &explain, &schema}) {
    add_repeated(*verb, "--plugin", to->plugins, "a plugin's file, whose components are included");
  }
  const auto folder = std::make_shared<std::string>();
  verbs.add("reference", "write the reference pages", [folder] { return reference_verb(*folder); })
      .add_option("folder", *folder, "the folder to write to")
      ->required();
  struct FileArguments {
    std::string target, source;
  };
  const auto file = std::make_shared<FileArguments>();
  add_new_verb(verbs);
  CLI::App& copy = verbs.add("cp", "copy a built-in recipe",
                             [file] { return copy_verb(file->source, file->target); });
  copy.add_option("source", file->source, "builtin:NAME")->required();
  copy.add_option("target", file->target, "the file to write; default: NAME.yaml");
}

}  // namespace accel
