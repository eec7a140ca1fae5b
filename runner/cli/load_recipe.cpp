#include "runner/cli/load_recipe.h"

#include <algorithm>
#include <filesystem>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/accelerate/config_file.h"
#include "compat/accelerate/sagemaker_config.h"
#include "core/base/log.h"
#include "core/recipe/deprecated_names.h"
#include "core/recipe/run_name.h"
#include "parallel/rendezvous/rank_info.h"
#include "runner/cli/machine_layer.h"
#include "runner/plugin/described.h"
#include "runner/plugin/plugin_set.h"
#include "runner/startup/lazy_torch.h"
#include "track/git_state.h"
#include "train/recipe/missing_columns.h"
#include "train/recipe/missing_inputs.h"
#include "train/recipe/saved_recipe.h"
#include "train/recipe/tracker_paths.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

std::string default_name(const std::string& recipe) {
  const size_t colon = recipe.starts_with("builtin:") ? recipe.find(':') + 1 : 0;
  return run_name_of(fs::path(recipe.substr(colon)).stem().string(), kLongestRunName);
}

/// Values of `${run.id}` and `${run.dir}`. The recipe may set the name, so it is known only after
/// a first composition.
struct RunReferences {
  std::string run_name;
  std::string run_dir;
  bool asked = false;

  std::optional<std::string> answer(const std::string& name, const std::string& recipe) {
    if (name == "git.sha") {
      const std::string commit = git_state(fs::path(recipe).parent_path()).commit;
      return commit.empty() ? std::nullopt : std::optional(commit);
    }
    asked = asked || name.starts_with("run.");
    if (name == "run.id") return run_name;
    if (name == "run.dir") {
      return fs::absolute(run_dir.empty() ? "runs/" + run_name : run_dir).string();
    }
    return std::nullopt;
  }
};

ComposeRequest request_of(const RecipeArguments& arguments, RunReferences& references) {
  ComposeRequest request;
  request.recipe = arguments.path;
  request.smoke = arguments.smoke;
  request.builtin_folder = builtin_folder();
  int number = arguments.first_override;
  for (const std::string& text : arguments.overrides) request.overrides.push_back({number++, text});
  request.above = arguments.flags;
  request.texts = arguments.texts;
  request.references.environment = &environment_variable;
  request.references.secret = &environment_variable;
  // A job reads its secrets itself.
  if (arguments.for_submit) request.references.secret = [](const auto&) { return "unread"; };
  request.references.fact = [&references, path = arguments.path](const std::string& name) {
    return references.answer(name, path);
  };
  return request;
}

/// The layers under a recipe.
struct LowLayers {
  std::vector<Node> trees;
  std::vector<std::string> warnings;
  Span processes_wanted;
};

LowLayers low_layers(const RecipeArguments& arguments, Diagnostics& problems) {
  LowLayers low;
  EnvironmentLayer variables = environment_layer(accelerate_variables(), problems);
  low.trees.push_back(std::move(variables.tree));
  low.warnings = std::move(variables.warnings);
  if (arguments.config.empty()) return low;
  ConfigLayer config = arguments.for_submit
                           ? read_submit_config(arguments.config, problems)
                           : read_config(arguments.config, arguments.on_cpu, problems);
  low.trees.push_back(std::move(config.tree));
  low.warnings.insert(low.warnings.end(), config.warnings.begin(), config.warnings.end());
  low.processes_wanted = config.processes_wanted;
  return low;
}

/// Accelerate's config may leave the number of processes to another layer, but one must set it.
void check_count(const LowLayers& low, const Composition& composition, Diagnostics& problems) {
  if (!low.processes_wanted.source || find_rank(&environment_variable)) return;
  const Node::Entry* section = composition.recipe.find("accelerator");
  if (section && section->node.find("num_processes")) return;
  problems.error(low.processes_wanted, "the number of processes is not set",
                 "add accelerator.num_processes=N, or 'num_processes' to this file");
}

/// Warns of a launcher that wanted several ranks but started one process, as `accelerate launch
/// --cpu` does: it sets the address of the rendezvous, but no rank.
void warn_of_lone_process(LowLayers& low, const Composition& composition) {
  const bool address = environment_variable("MASTER_ADDR") && environment_variable("MASTER_PORT");
  if (!address || accelerate_variables().empty() || find_rank(&environment_variable)) return;
  const Node::Entry* section = composition.recipe.find("accelerator");
  if (section && section->node.find("num_processes")) return;
  low.warnings.push_back(
      "'accelerate launch' set MASTER_ADDR for several ranks, but started one process: this run "
      "has "
      "one rank; set 'accelerator.num_processes', or start with 'accel-run launch'");
}

/// Removes the section `submit`, which is the config's, and returns it; null: none.
Node take_submit(Composition& composition, const RecipeArguments& arguments,
                 Diagnostics& problems) {
  Node::Map& sections = *composition.recipe.map();
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [](const auto& entry) { return entry.key == "submit"; });
  if (found == sections.end()) return {};
  const Source* source = found->where.source.get();
  const bool in_file = source && source->kind == Source::Kind::kFile;
  if (in_file && source->path != arguments.config) {
    problems.error(found->where, "'submit' does not belong in a recipe",
                   "write it into a config: accel-run submit RECIPE --config FILE");
  }
  Node section = std::move(found->node);
  if (section.where.source == nullptr) section.where = found->where;
  sections.erase(found);
  return section;
}

/// Adds a plugin; its errors are reported at its position in the recipe.
void add_plugin(PluginSet& plugins, const std::string& path, const Span& where,
                Diagnostics& problems) {
  const fs::path near = fs::proximate(path);
  try {
    plugins.add(near.begin()->string() == ".." ? path : near.string());
  } catch (const RecipeError& error) {  // of its manifest
    for (const Diagnostic& d : error.diagnostics()) problems.error(d.where, d.message, d.hint);
  } catch (const Error& error) {
    problems.error(where, error.what(), error.hint());
  }
}

/// Loads the recipe's plugins; without libtorch only their manifests.
PluginSet load_plugins(const Node& recipe, Diagnostics& problems) {
  PluginSet plugins(components(), torch_is_there() ? nullptr : &enter_described);
  const Node::Entry* entry = recipe.find("plugins");
  if (!entry) return plugins;
  Diagnostics unused;  // reported when the recipe is read
  Reading reading{unused, components()};
  const auto paths = Codec<std::vector<FilePath>>::read(entry->node, "plugins", reading);
  if (!paths) return plugins;
  for (size_t i = 0; i < paths->size(); ++i) {
    const Node& node = entry->node.list() ? (*entry->node.list())[i] : entry->node;
    add_plugin(plugins, (*paths)[i].text, node.where, problems);
  }
  problems.check();  // otherwise their components would be reported as unknown
  return plugins;
}

}  // namespace

const Registry& components() {
  static const Registry registry = [] {
    Registry made;
    Registration::enter_all(made);
    return made;
  }();
  return registry;
}

Registry components_with(const std::vector<std::string>& plugins) {
  PluginSet all(components(), &enter_described);
  for (const std::string& path : plugins) all.add(path);
  return all.registry();
}

std::shared_ptr<const Registry> components_for(const Node& recipe,
                                               std::vector<PluginIdentity>& plugins) {
  Diagnostics problems;
  const PluginSet loaded = load_plugins(recipe, problems);
  plugins = loaded.identities();
  return std::make_shared<const Registry>(loaded.registry());
}

std::string builtin_folder() {
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  const fs::path bin = binary.parent_path();
  for (const fs::path& folder :
       {bin / "../share/accel-run/recipes", bin / "../../recipes", bin / "../recipes"}) {
    if (fs::is_directory(folder, error)) return folder.lexically_normal().string();
  }
  return {};
}

namespace {

enum class Inputs { kAnywhere, kOnThisMachine };

LoadedRecipe load(const RecipeArguments& arguments, const std::string& run_dir, Inputs inputs) {
  const std::vector<FieldInfo> sections = RecipeOptions::schema().info();
  const DeprecatedNames names(sections, components());
  RunReferences references{default_name(arguments.path), run_dir};
  ComposeRequest request = request_of(arguments, references);
  request.names = &names;
  Diagnostics of_layers;
  LowLayers low = low_layers(arguments, of_layers);
  request.below = std::move(low.trees);
  Diagnostics problems = of_layers;
  LoadedRecipe loaded;
  loaded.composition = compose(request, problems);
  const Node::Entry* name = loaded.composition.recipe.find("name");
  if (references.asked && name && name->node.scalar() &&
      name->node.scalar()->text != references.run_name) {
    references.run_name = name->node.scalar()->text;
    problems = of_layers;
    loaded.composition = compose(request, problems);
  }
  loaded.submit = take_submit(loaded.composition, arguments, problems);
  if (!arguments.for_submit) {
    add_machines(loaded.composition.recipe, &environment_variable, problems);
    fit_to_ranks(loaded.composition.recipe, &environment_variable);
  }
  check_count(low, loaded.composition, problems);
  warn_of_lone_process(low, loaded.composition);
  loaded.warnings = std::move(low.warnings);
  const PluginSet plugins = load_plugins(loaded.composition.recipe, problems);
  loaded.registry = std::make_shared<const Registry>(plugins.registry());
  // Those of plugins and of references.
  DeprecatedNames(sections, *loaded.registry).replace(loaded.composition.recipe, problems);
  const bool is_saved =
      !run_dir.empty() && fs::path(arguments.path).lexically_normal() ==
                              (fs::path(run_dir) / "recipe.yaml").lexically_normal();
  if (is_saved) replace_old_values(loaded.composition.recipe);
  Reading reading{problems, *loaded.registry, &sections};
  if (inputs == Inputs::kOnThisMachine) {
    report_missing_inputs(loaded.composition.recipe, sections, reading);
    report_missing_columns(loaded.composition.recipe, reading);
  }
  loaded.options = read_recipe(loaded.composition.recipe, references.run_name, reading);
  check_tracker_paths(loaded.options, run_dir.empty() ? "runs/" + loaded.options.name : run_dir,
                      problems);
  problems.check();
  loaded.options.plugin_identities = plugins.identities();
  loaded.resolved = resolve_recipe(loaded.options, loaded.composition.recipe);
  loaded.deprecations = problems.warnings();
  return loaded;
}

}  // namespace

LoadedRecipe load_recipe(const RecipeArguments& arguments, const std::string& run_dir) {
  return load(arguments, run_dir, Inputs::kAnywhere);
}

LoadedRecipe load_runnable(const RecipeArguments& arguments, const std::string& run_dir) {
  return load(arguments, run_dir, Inputs::kOnThisMachine);
}

Node merged_recipe(const RecipeArguments& arguments) {
  RunReferences references{default_name(arguments.path), {}};
  Diagnostics problems;
  const DeprecatedNames names(RecipeOptions::schema().info(), components());
  ComposeRequest request = request_of(arguments, references);
  request.names = &names;
  try {
    return compose(request, problems).recipe;
  } catch (const RecipeError&) {
    return {};
  }
}

void report_layers(const RecipeArguments& arguments, const LoadedRecipe& loaded) {
  if (!arguments.config.empty()) say("config " + arguments.config);
  report_warnings(loaded);
}

void report_warnings(const LoadedRecipe& loaded) {
  for (const std::string& warning : loaded.warnings) warn(warning);
  print_warnings(loaded.deprecations);
}

std::string current_key(const std::string& key, const LoadedRecipe& loaded) {
  return DeprecatedNames(RecipeOptions::schema().info(), *loaded.registry)
      .current_key(key, loaded.resolved);
}

}  // namespace accel
