// import: a recipe from the config of another trainer.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "runner/cli/load_recipe.h"
#include "runner/cli/new_file.h"
#include "runner/cli/verbs.h"
#include "runner/importers/import_recipe.h"
#include "runner/launch/config_file.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kAccelerate = "accelerate";

/// A warning of one line's key is the reason why it is not in the recipe.
bool leave_warned(const std::string& warning, const std::string& path, Imported& out) {
  const Node tree = parse_config(path);
  for (const Node::Entry& entry : *tree.map()) {
    const std::string place = path + ':' + std::to_string(entry.where.line) + ':';
    if (!warning.starts_with(place)) continue;
    const size_t text = warning.find(": ", place.size());
    out.left.push_back({entry.key, entry.where, warning.substr(text + 2)});
    std::erase(out.taken, entry.key);
    return true;
  }
  return false;
}

/// A config of Accelerate's becomes a piece of a recipe: `--config` takes both.
Imported import_accelerate(const std::string& path) {
  Imported out;
  out.peer = kAccelerate;
  Diagnostics problems;
  ConfigLayer config = read_config(path, /*on_cpu=*/true, problems);
  out.recipe = std::move(config.tree);
  const Node tree = parse_config(path);
  for (const Node::Entry& entry : *tree.map()) {
    const Span& where = entry.where;
    const auto about = [&](const Diagnostic& problem) {
      return problem.where.line == where.line || problem.where == entry.node.where;
    };
    const auto found = std::find_if(problems.list().begin(), problems.list().end(), about);
    if (found != problems.list().end()) {
      out.left.push_back({entry.key, where, found->message});
    } else {
      out.taken.push_back(entry.key);
    }
  }
  for (const std::string& warning : config.warnings) {
    if (!leave_warned(warning, path, out)) out.remarks.push_back(warning);
  }
  out.remarks.emplace_back("this says where to run: give it to a recipe with --config");
  return out;
}

Imported import_file(const std::string& path, const std::string& peer) {
  const Node tree = parse_config(path);
  const bool accelerate = tree.find("compute_environment") || tree.find("distributed_type");
  if (peer == kAccelerate || (peer.empty() && accelerate)) return import_accelerate(path);
  return import_recipe(tree, path, peer);
}

/// What is still wrong with the recipe, were it at `path`.
std::vector<Diagnostic> still_wrong(const std::string& path, const std::string& text) {
  RecipeArguments arguments;
  arguments.path = path;
  arguments.texts[fs::weakly_canonical(path).string()] = text;
  try {
    load_recipe(arguments);
  } catch (const RecipeError& error) {
    return error.diagnostics();
  }
  return {};
}

}  // namespace

ExitCode import_verb(const ImportArguments& arguments) {
  const std::string& target = arguments.target;
  if (!target.empty()) check_new_file(target);
  const Imported imported = import_file(arguments.source, arguments.peer);
  const std::string text = imported_text(imported);
  std::vector<Diagnostic> wrong;
  if (imported.peer != kAccelerate) {
    wrong = still_wrong(target.empty() ? "imported.yaml" : target, text);
  }
  if (target.empty()) {
    std::cout << text;
  } else {
    write_new_file(target, text);
    std::cerr << "wrote " << target << '\n';
  }
  std::cerr << import_account(imported);
  if (!wrong.empty()) std::cerr << "still to do:\n";
  for (const Diagnostic& problem : wrong) std::cerr << render(problem);
  return ExitCode::kDone;
}

}  // namespace accel
