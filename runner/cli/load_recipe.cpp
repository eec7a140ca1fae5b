#include "runner/cli/load_recipe.h"

#include <filesystem>

#include "core/log.h"
#include "runner/cli/lazy_torch.h"
#include "runner/job/described.h"
#include "runner/job/missing_inputs.h"
#include "runner/launch/config_file.h"
#include "runner/launch/environment_layer.h"
#include "runner/launch/rank_place.h"
#include "runner/track/git_state.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

std::string stem_of(const std::string& recipe) {
  const size_t colon = recipe.starts_with("builtin:") ? recipe.find(':') + 1 : 0;
  return fs::path(recipe.substr(colon)).stem().string();
}

/// What `${run.id}` and `${run.dir}` stand for. The name may itself come from the recipe, so it is
/// known only after a first composition.
struct RunFacts {
  std::string name;
  std::string dir;
  bool asked = false;

  std::optional<std::string> answer(const std::string& fact, const std::string& recipe) {
    if (fact == "git.sha") {
      const std::string commit = git_state(fs::path(recipe).parent_path()).commit;
      return commit.empty() ? std::nullopt : std::optional(commit);
    }
    asked = asked || fact.starts_with("run.");
    if (fact == "run.id") return name;
    if (fact == "run.dir") return fs::absolute(dir.empty() ? "runs/" + name : dir).string();
    return std::nullopt;
  }
};

ComposeRequest request_of(const RecipeArguments& arguments, RunFacts& facts) {
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
  request.references.fact = [&facts, path = arguments.path](const std::string& name) {
    return facts.answer(name, path);
  };
  return request;
}

/// What lies under a recipe.
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
  ConfigLayer config = read_config(arguments.config, arguments.on_cpu, problems);
  low.trees.push_back(std::move(config.tree));
  low.warnings.insert(low.warnings.end(), config.warnings.begin(), config.warnings.end());
  low.processes_wanted = config.processes_wanted;
  return low;
}

/// A config of Accelerate's may leave the number of processes to others, but not to chance.
void check_count(const LowLayers& low, const Composition& composition, Diagnostics& problems) {
  if (!low.processes_wanted.source || find_rank(&environment_variable)) return;
  const Node::Entry* section = composition.recipe.find("accelerator");
  if (section && section->node.find("num_processes")) return;
  problems.error(low.processes_wanted, "nothing says how many processes there are",
                 "add accelerator.num_processes=N, or 'num_processes' to this file");
}

/// Puts what is wrong with a plugin where the recipe names it.
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

/// The components that the recipe can name. Without libtorch none of a plugin's code runs.
PluginSet load_plugins(const Node& recipe, Diagnostics& problems) {
  PluginSet plugins(components(), torch_is_there() ? nullptr : &enter_described);
  const Node::Entry* entry = recipe.find("plugins");
  if (!entry) return plugins;
  Diagnostics told_later;  // when the recipe is read
  Reading reading{told_later, components()};
  const auto paths = Codec<std::vector<FilePath>>::read(entry->node, "plugins", reading);
  if (!paths) return plugins;
  for (size_t i = 0; i < paths->size(); ++i) {
    const Node& node = entry->node.list() ? (*entry->node.list())[i] : entry->node;
    add_plugin(plugins, (*paths)[i].text, node.where, problems);
  }
  problems.check();  // without them, what they bring would look misspelt
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
  RunFacts facts{stem_of(arguments.path), run_dir};
  ComposeRequest request = request_of(arguments, facts);
  Diagnostics of_layers;
  LowLayers low = low_layers(arguments, of_layers);
  request.below = std::move(low.trees);
  Diagnostics problems = of_layers;
  LoadedRecipe loaded;
  loaded.warnings = std::move(low.warnings);
  loaded.composition = compose(request, problems);
  const Node::Entry* name = loaded.composition.recipe.find("name");
  if (facts.asked && name && name->node.scalar() && name->node.scalar()->text != facts.name) {
    facts.name = name->node.scalar()->text;
    problems = of_layers;
    loaded.composition = compose(request, problems);
  }
  check_count(low, loaded.composition, problems);
  const PluginSet plugins = load_plugins(loaded.composition.recipe, problems);
  loaded.registry = std::make_shared<const Registry>(plugins.registry());
  const std::vector<FieldInfo> sections = RecipeOptions::schema().info();
  Reading reading{problems, *loaded.registry, &sections};
  if (inputs == Inputs::kOnThisMachine) {
    report_missing_inputs(loaded.composition.recipe, sections, reading);
  }
  loaded.options = read_recipe(loaded.composition.recipe, facts.name, reading);
  loaded.options.plugin_identities = plugins.identities();
  loaded.resolved = resolve_recipe(loaded.options, loaded.composition.recipe);
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
  RunFacts facts{stem_of(arguments.path), {}};
  Diagnostics problems;
  try {
    return compose(request_of(arguments, facts), problems).recipe;
  } catch (const RecipeError&) {
    return {};
  }
}

void tell_layers(const RecipeArguments& arguments, const LoadedRecipe& loaded) {
  if (!arguments.config.empty()) say("config " + arguments.config);
  for (const std::string& warning : loaded.warnings) warn(warning);
}

}  // namespace accel
