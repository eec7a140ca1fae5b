#include "runner/cli/run_diff.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "core/error.h"
#include "runner/cli/checkpoint_text.h"
#include "runner/job/recipe.h"
#include "runner/job/recipe_diff.h"

namespace accel {
namespace {

constexpr auto kRecipe = "/recipe.yaml";

Node recipe_of(const std::string& run) {
  std::ifstream in(run + kRecipe);
  if (!in) {
    throw Error(ExitCode::kRecipe, "'" + run + "' is no run folder: it has no recipe.yaml",
                "give the folder that 'run' printed, such as runs/NAME");
  }
  std::ostringstream text;
  text << in.rdbuf();
  return parse_recipe(run + kRecipe, text.str());
}

}  // namespace

std::optional<CheckpointDifference> checkpoint_difference(const std::string& run_a,
                                                          const std::string& run_b) {
  DiskFiles files;
  const CheckpointStore a(files, run_a), b(files, run_b);
  std::map<int64_t, std::string> in_a;
  for (const CheckpointEntry& entry : a.list()) in_a[entry.step] = entry.path;
  const std::vector<CheckpointEntry> in_b = b.list();
  const auto common = std::find_if(in_b.rbegin(), in_b.rend(), [&](const CheckpointEntry& entry) {
    return in_a.contains(entry.step);
  });
  if (common == in_b.rend()) return std::nullopt;
  return CheckpointDifference{common->step,
                              differences(a.load(in_a[common->step]), b.load(common->path))};
}

std::vector<std::string> recipe_differences(const std::string& run_a, const std::string& run_b) {
  std::vector<std::string> out;
  for (const RecipeChange& change :
       diff_recipes(recipe_of(run_a), recipe_of(run_b), RecipeOptions::schema().info())) {
    const auto shown = [](const std::string& text) { return text.empty() ? "missing" : text; };
    out.push_back(change.key + " is " + shown(change.then) + " and " + shown(change.now));
  }
  return out;
}

}  // namespace accel
