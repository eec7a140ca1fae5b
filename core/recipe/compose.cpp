#include "core/recipe/compose.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "core/base/text.h"
#include "core/recipe/override.h"
#include "core/recipe/parse.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBuiltin = "builtin:";
constexpr size_t kMaxIncludes = 64;  ///< files that one recipe may be made of

/// Names of the recipes in the folder of a missing file.
std::vector<std::string> recipes_in(const fs::path& folder) {
  constexpr size_t kMost = 1000;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && names.size() < kMost;
       it.increment(error)) {
    const std::string extension = it->path().extension().string();
    if (extension == ".yaml" || extension == ".yml" || extension == ".toml") {
      names.push_back(it->path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A recipe to read: its path, its name as given, and the position of the reference.
struct Wanted {
  fs::path path;
  std::string name;  ///< the path, or "builtin:NAME"
  Span where;
};

/// The nearest recipe of the folder, else what may be written there.
std::string hint_for_unreadable(const Wanted& wanted) {
  const fs::path folder = wanted.path.parent_path().empty() ? "." : wanted.path.parent_path();
  const std::string near = closest(wanted.path.filename().string(), recipes_in(folder));
  if (wanted.name.starts_with(kBuiltin)) {
    if (near.empty()) return "give the name of a built-in recipe, such as builtin:readme";
    return text("did you mean '{}{}'?", kBuiltin, fs::path(near).stem().string());
  }
  if (!near.empty()) return text("did you mean '{}'?", (wanted.path.parent_path() / near).string());
  std::error_code error;
  if (fs::is_directory(wanted.path, error)) return "name a recipe file in it";
  if (wanted.where.source) return "relative paths are resolved from the folder of the recipe file";
  return "give an existing recipe file, or write one with 'accel-run new'";
}

/// Reports why it cannot be read.
void report_unreadable(const Wanted& wanted, const std::string& reason, Diagnostics& problems) {
  problems.error(wanted.where, text("cannot read the recipe '{}': {}", wanted.name, reason),
                 hint_for_unreadable(wanted));
}

std::optional<std::string> read_file(const Wanted& wanted, Diagnostics& problems) {
  std::error_code error;
  if (fs::is_directory(wanted.path, error)) {
    report_unreadable(wanted, "it is a folder", problems);
    return std::nullopt;
  }
  std::ifstream file(wanted.path, std::ios::binary);
  if (!file) {
    report_unreadable(wanted, std::strerror(errno), problems);
    return std::nullopt;
  }
  // One byte beyond the limit, so that parse_recipe() reports a larger file.
  std::string text(kMaxRecipeBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) {
    report_unreadable(wanted, "the disk failed", problems);
    return std::nullopt;
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

/// Reads a recipe and its includes, in the order of the layers.
class Layers {
 public:
  Layers(const ComposeRequest& request, Diagnostics& problems)
      : request_(request), problems_(problems) {}

  void read(const Wanted& wanted) {
    std::error_code error;
    const fs::path& path = wanted.path;
    const fs::path canonical = fs::weakly_canonical(path, error);
    const auto open = std::find(open_.begin(), open_.end(), canonical);
    if (open != open_.end()) {
      std::string round;
      for (auto it = open; it != open_.end(); ++it) round += it->filename().string() + " -> ";
      problems_.error(wanted.where,
                      "recipes include each other: " + round + path.filename().string());
      return;
    }
    if (++count_ > kMaxIncludes) {
      if (count_ == kMaxIncludes + 1) {
        problems_.error(wanted.where,
                        text("a recipe may consist of at most {} files", kMaxIncludes));
      }
      return;
    }
    const auto open_text = request_.texts.find(canonical.string());
    const std::optional<std::string> text = open_text == request_.texts.end()
                                                ? read_file(wanted, problems_)
                                                : std::optional(open_text->second);
    if (!text) return;
    std::optional<Node> tree = parse(path.string(), *text);
    if (!tree) return;
    open_.push_back(canonical);
    include(*tree, path);
    open_.pop_back();
    files_.push_back(path.string());
    trees_.push_back(std::move(*tree));
  }

  /// Where `builtin:NAME` is.
  fs::path builtin_path(const std::string& name) const {
    const fs::path path = fs::path(request_.builtin_folder) / name.substr(kBuiltin.size());
    if (path.has_extension()) return path;
    std::error_code error;
    const fs::path toml = path.string() + ".toml";
    return fs::exists(toml, error) ? toml : fs::path(path.string() + ".yaml");
  }

  std::vector<Node>& trees() { return trees_; }
  std::vector<std::string>& files() { return files_; }

 private:
  std::optional<Node> parse(const std::string& path, const std::string& text) {
    try {
      Node tree = parse_recipe(path, text);
      if (tree.map()) return tree;
      problems_.error(tree.where,
                      tree.null() ? "the recipe is empty"
                                  : accel::text("a recipe is a section, not {}", tree.describe()));
    } catch (const RecipeError& error) {
      for (const Diagnostic& d : error.diagnostics()) problems_.error(d.where, d.message, d.hint);
    }
    return std::nullopt;
  }

  void include(Node& tree, const fs::path& from) {
    Node::Map& map = *tree.map();
    const auto entry = std::find_if(map.begin(), map.end(),
                                    [](const Node::Entry& e) { return e.key == "include"; });
    if (entry == map.end()) return;
    const Node includes = std::move(entry->node);
    map.erase(entry);
    const Node::List one = {includes};
    if (includes.null()) return;
    for (const Node& item : includes.list() ? *includes.list() : one) {
      const Scalar* name = item.scalar();
      if (!name || name->text.empty() || name->text.find("${") != std::string::npos) {
        problems_.error(item.where,
                        text("'include' wants the path of a recipe, not {}", item.describe()),
                        name ? "references are replaced after files are included" : "");
        continue;
      }
      const bool builtin = name->text.starts_with(kBuiltin);
      const fs::path path =
          builtin ? builtin_path(name->text) : (from.parent_path() / name->text).lexically_normal();
      read({path, builtin ? name->text : path.string(), item.where});
    }
  }

  const ComposeRequest& request_;
  Diagnostics& problems_;
  std::vector<Node> trees_;
  std::vector<std::string> files_;
  std::vector<fs::path> open_;  ///< from the recipe to the file being read
  size_t count_ = 0;
};

References with_recipe_folder(References references, const fs::path& recipe) {
  references.fact = [fact = references.fact, recipe](const std::string& name) {
    if (name == "recipe.dir") {
      const fs::path folder = fs::absolute(recipe).lexically_normal().parent_path();
      return std::optional(folder.string());
    }
    return fact ? fact(name) : std::nullopt;
  };
  return references;
}

void lay(Node& recipe, const Node& layer, Merging& merging) {
  if (!merging.names) return merge(recipe, layer, {}, merging);
  Node current = layer;
  merging.names->replace(current, merging.problems, {&recipe, merging.composed});
  merge(recipe, current, {}, merging);
}

/// Replaces deprecated names in the dotted keys of `smoke`, which stays in the recipe.
void rename_in_smoke(Node& recipe, Node& smoke, Merging& merging) {
  if (!merging.names || !smoke.map()) return;
  for (Node::Entry& entry : *smoke.map()) {
    Diagnostics told_later;
    std::vector<Override> one = overrides_of({Node::Map{entry}, smoke.where}, told_later);
    if (one.empty()) continue;
    Override& change = one.front();
    merging.names->replace(change, merging.problems, {&recipe, merging.composed});
    if (change.path.empty()) continue;
    const bool removes = entry.key.starts_with('~');
    entry.key = (removes ? "~" : "") + joined_path(change) + change.mark;
    if (!removes) entry.node = std::move(change.value);
  }
}

/// Merges all layers in their order; `trees` are those of the recipe's files.
void lay_all(Node& recipe, const ComposeRequest& request, const std::vector<Node>& trees,
             Merging& merging) {
  for (const Node& layer : request.below) lay(recipe, layer, merging);
  for (const Node& layer : trees) lay(recipe, layer, merging);
  if (Node::Entry* smoke = recipe.find("smoke")) {
    rename_in_smoke(recipe, smoke->node, merging);
    if (request.smoke) {
      apply_overrides(recipe, overrides_of(Node(smoke->node), merging.problems), merging);
    }
  }
  for (const Node& layer : request.above) lay(recipe, layer, merging);
  std::vector<Override> overrides;
  for (const Argument& argument : request.overrides) {
    overrides.push_back(parse_override(argument.text, argument.number, merging.problems));
  }
  apply_overrides(recipe, std::move(overrides), merging);
}

}  // namespace

Composition compose(const ComposeRequest& request, Diagnostics& problems) {
  Diagnostics reading;
  Layers layers(request, reading);
  const bool builtin = request.recipe.starts_with(kBuiltin);
  const fs::path path = builtin ? layers.builtin_path(request.recipe) : fs::path(request.recipe);
  layers.read({path, request.recipe, {}});
  reading.check();

  Composition out{{Node::Map{}, layers.trees().back().where}, {}, std::move(layers.files())};
  // A layer may have deprecated names of a component whose type only a later layer gives.
  Node draft = out.recipe;
  if (request.names) {
    History history;
    Diagnostics ignored;
    Merging drafting{history, ignored, request.names};
    lay_all(draft, request, layers.trees(), drafting);
  }
  Merging merging{out.history, problems, request.names, &draft};
  lay_all(out.recipe, request, layers.trees(), merging);
  interpolate(out.recipe, with_recipe_folder(request.references, path), problems);
  return out;
}

}  // namespace accel
