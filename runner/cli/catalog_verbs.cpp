// list, explain, schema, reference, new and cp.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "core/catalog_text.h"
#include "core/json_schema.h"
#include "core/log.h"
#include "core/reference.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/new_file.h"
#include "runner/cli/new_recipe.h"
#include "runner/cli/verbs.h"
#include "runner/sweep/sweep_file.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

}  // namespace

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
  std::cout << explain_text(catalog_of(all, kind), name);
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
    if (!out) throw IoError("cannot write '" + name + "' in '" + folder + "'");
  };
  write("recipe.md", recipe_reference(RecipeOptions::schema().info()));
  for (const CatalogIndex* catalog : components().all()) {
    write(catalog->kind() + ".md", reference_page(*catalog));
  }
  return ExitCode::kDone;
}

ExitCode new_verb(const std::string& target, const std::string& data) {
  write_new_file(target, sniff_recipe(data));
  say("wrote " + target + "; run it with: accel-run " + target);
  return ExitCode::kDone;
}

ExitCode copy_verb(const std::string& source, const std::string& target) {
  constexpr std::string_view kPrefix = "builtin:";
  const std::string name = source.starts_with(kPrefix) ? source.substr(kPrefix.size()) : source;
  const fs::path from = fs::path(builtin_folder()) / (name + ".yaml");
  if (!fs::is_regular_file(from)) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(builtin_folder())) {
      if (entry.path().extension() != ".yaml") continue;
      names.push_back(fs::relative(entry.path(), builtin_folder()).replace_extension().string());
    }
    std::sort(names.begin(), names.end());
    const std::string near = did_you_mean(name, names);
    std::string all;
    for (const std::string& each : names) all += (all.empty() ? "" : ", ") + each;
    throw Error(ExitCode::kRecipe, "no built-in recipe is named '" + name + "'",
                near.empty() ? "there are " + all : near);
  }
  std::ifstream in(from);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const fs::path to = target.empty() ? fs::path(from.filename()) : fs::path(target);
  write_new_file(to, text);
  say("wrote " + to.string());
  return ExitCode::kDone;
}

}  // namespace accel
