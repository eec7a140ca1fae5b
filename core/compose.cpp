#include "core/compose.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "core/override.h"
#include "core/parse.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBuiltin = "builtin:";
constexpr size_t kMaxIncludes = 64;  ///< files that one recipe may be made of

/// Names of recipes in the folder that a missing file was looked for in.
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

/// A recipe to read: where it is, how it was asked for, and what asked.
struct Wanted {
  fs::path path;
  std::string name;  ///< the path, or "builtin:NAME"
  Span where;
};

/// Reports what stands in the way of reading it.
void report_unreadable(const Wanted& wanted, const std::string& reason, Diagnostics& problems) {
  const fs::path folder = wanted.path.parent_path().empty() ? "." : wanted.path.parent_path();
  std::string near = closest(wanted.path.filename().string(), recipes_in(folder));
  if (!near.empty()) {
    near = wanted.name.starts_with(kBuiltin)
               ? std::string(kBuiltin) + fs::path(near).stem().string()
               : (wanted.path.parent_path() / near).string();
  }
  problems.error(wanted.where, "cannot read the recipe '" + wanted.name + "': " + reason,
                 near.empty() ? "" : "did you mean '" + near + "'?");
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
  // One byte more than a recipe may have, so that parse_recipe sees that it has too many.
  std::string text(kMaxRecipeBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) {
    report_unreadable(wanted, "the disk failed", problems);
    return std::nullopt;
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

/// Reads a recipe and everything it includes, in the order in which the layers are laid.
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
        problems_.error(wanted.where, "a recipe may be made of at most " +
                                          std::to_string(kMaxIncludes) + " files");
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
      problems_.error(tree.where, tree.null() ? "the recipe is empty"
                                              : "a recipe is a section, not " + tree.describe());
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
        problems_.error(item.where, "'include' wants the path of a recipe, not " + item.describe(),
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

}  // namespace

Composition compose(const ComposeRequest& request, Diagnostics& problems) {
  Diagnostics reading;
  Layers layers(request, reading);
  const bool builtin = request.recipe.starts_with(kBuiltin);
  const fs::path path = builtin ? layers.builtin_path(request.recipe) : fs::path(request.recipe);
  layers.read({path, request.recipe, {}});
  reading.check();

  Composition out{{Node::Map{}, layers.trees().back().where}, {}, std::move(layers.files())};
  Merging merging{out.history, problems};
  for (const Node& layer : request.below) merge(out.recipe, layer, {}, merging);
  for (const Node& layer : layers.trees()) merge(out.recipe, layer, {}, merging);
  if (const Node::Entry* smoke = out.recipe.find("smoke"); smoke && request.smoke) {
    apply_overrides(out.recipe, overrides_of(Node(smoke->node), problems), merging);
  }
  for (const Node& layer : request.above) merge(out.recipe, layer, {}, merging);
  std::vector<Override> overrides;
  for (const Argument& argument : request.overrides) {
    overrides.push_back(parse_override(argument.text, argument.number, problems));
  }
  apply_overrides(out.recipe, std::move(overrides), merging);
  interpolate(out.recipe, with_recipe_folder(request.references, path), problems);
  return out;
}

}  // namespace accel
