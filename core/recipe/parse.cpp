#include "core/recipe/parse.h"

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/recipe/confusables.h"

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
  if (problems.empty()) return root;
  std::vector<Diagnostic> broken = problems.list();
  for (Diagnostic& each : broken) explain_odd_layout(each.where, each.hint);
  Diagnostics explained;
  for (Diagnostic& each : broken) explained.error(each.where, each.message, each.hint);
  explained.check();
  return root;
}

}  // namespace accel
