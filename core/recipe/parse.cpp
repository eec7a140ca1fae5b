#include "core/recipe/parse.h"

#include <optional>
#include <string_view>

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/recipe/confusables.h"
#include "core/recipe/quoted_files.h"

namespace accel {
namespace {

Span place_of(const std::shared_ptr<const Source>& source, size_t offset) {
  Span where{source, 1, 1};
  for (size_t i = 0; i < offset; ++i) {
    ++where.column;
    if (source->text[i] == '\n') where = {source, where.line + 1, 1};
  }
  return where;
}

/// Characters of options and of their changes in layers.
constexpr std::string_view kOptionCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+!~/ ";
constexpr size_t kLongestOptionName = 48;

/// The position of the first value or key that is not of a recipe, of a file that messages do not
/// show; none if its keys could be options.
std::optional<Span> foreign_text(const Node& root, const Diagnostics& problems) {
  if (!problems.empty()) return problems.list().front().where;
  if (root.scalar()) return root.where;
  if (!root.map()) return std::nullopt;
  for (const Node::Entry& entry : *root.map()) {
    const bool ordinary = entry.key.find_first_not_of(kOptionCharacters) == std::string::npos;
    if (!ordinary || entry.key.size() > kLongestOptionName) return entry.where;
  }
  return std::nullopt;
}

}  // namespace

bool check_text(const std::shared_ptr<const Source>& source, Diagnostics& problems) {
  const bool file = source->kind == Source::Kind::kFile;
  const std::string name = file ? "the recipe" : "the argument";
  if (source->text.size() > kMaxRecipeBytes) {
    problems.error({source}, text("{} has {} bytes, more than the limit of {}", name,
                                  source->text.size(), kMaxRecipeBytes));
    return false;
  }
  const std::optional<size_t> bad = first_unreadable(source->text);
  if (!bad) return true;
  const bool control = character_length(source->text, *bad) > 0;
  problems.error(place_of(source, *bad),
                 name + (control ? " has a control character" : " is not UTF-8"),
                 !control && file ? "save it as UTF-8" : "");
  return false;
}

void report_too_many(const Span& where, Diagnostics& problems) {
  problems.error(where, text("the recipe has more than {} values", kMaxNodes));
}

void report_too_deep(const Span& where, Diagnostics& problems) {
  problems.error(where, text("the recipe is nested more than {} deep", kMaxDepth));
}

void report_empty_key(const Span& where, Diagnostics& problems) {
  problems.error(where, "a key must be a text, not empty");
}

void report_duplicate(const std::string& key, const Span& where, const Span& first,
                      Diagnostics& problems) {
  problems.error(where, text("'{}' is given twice", key),
                 text("it is first given on line {}", first.line));
}

Node parse_recipe(const std::string& path, std::string text) {
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  const auto source = std::make_shared<const Source>(Source{path, std::move(text)});
  Diagnostics problems;
  Node root;
  if (check_text(source, problems)) {
    root = path.ends_with(".toml") ? parse_toml(source, problems) : parse_yaml(source, 0, problems);
  }
  const auto foreign = is_quoted_file(path) ? std::optional<Span>() : foreign_text(root, problems);
  if (foreign) {
    throw RecipeError({{*foreign, "this file is not a recipe or config",
                        "its text is shown only if its name ends in .yaml, .yml, .toml or .json"}});
  }
  if (problems.empty()) return root;
  std::vector<Diagnostic> broken = problems.list();
  for (Diagnostic& each : broken) explain_odd_layout(each.where, each.hint);
  Diagnostics explained;
  for (Diagnostic& each : broken) explained.error(each.where, each.message, each.hint);
  explained.check();
  return root;
}

}  // namespace accel
