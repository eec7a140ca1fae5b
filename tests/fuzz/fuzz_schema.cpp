// Everything behind the parsers against any text: two layers and overrides, split by lines of
// "%%%", are merged, interpolated, read by a schema, written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "core/recipe/interpolate.h"
#include "core/recipe/override.h"
#include "core/recipe/parse.h"
#include "tests/unit/core/test_components.h"

namespace accel {
namespace {

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(by, begin)) != std::string::npos; begin = end + by.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

References fuzz_references() {
  References references;
  references.environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "L") return "caf\xe9";
    return name == "E" ? std::optional<std::string>("$${vars.a}") : std::nullopt;
  };
  references.secret = [](const std::string& name) -> std::optional<std::string> {
    return name == "S" ? std::optional<std::string>("hush-hush") : std::nullopt;
  };
  return references;
}

/// Reads what was written. Only the limits may refuse it, for references may repeat a lot: a text
/// that is shorter than the limit on values passes neither that one nor the one on bytes.
Node read_again(const std::string& written) {
  try {
    return parse_recipe("again.yaml", written);
  } catch (const RecipeError& error) {
    if (written.size() > kMaxNodes) throw;
    std::cerr << error.what() << written;
    std::abort();
  }
}

void compose_text(const std::string& text, const Registry& registry) {
  const std::vector<std::string> parts = split(text, "\n%%%\n");
  Diagnostics problems;
  History history;
  Merging merging{history, problems};
  Node recipe{Node::Map{}, {}};
  for (size_t i = 0; i < std::min<size_t>(2, parts.size()); ++i) {
    const Node layer = parse_recipe("fuzz.yaml", parts[i]);
    if (layer.map()) merge(recipe, layer, {}, merging);
  }
  std::vector<Override> overrides;
  int number = 0;
  for (const std::string& line : split(parts.size() > 2 ? parts[2] : "", "\n")) {
    if (!line.empty()) overrides.push_back(parse_override(line, ++number, problems));
  }
  apply_overrides(recipe, std::move(overrides), merging);
  interpolate(recipe, fuzz_references(), problems);
  std::erase_if(*recipe.map(), [](const Node::Entry& entry) { return entry.key == "vars"; });
  const std::vector<FieldInfo> fields = TestRecipe::schema().info();
  Reading reading{problems, registry, &fields};
  const TestRecipe options = TestRecipe::schema().read(recipe, reading);
  problems.check();
  const Node resolved = escape_references(TestRecipe::schema().write(options, &recipe));
  const std::string written =
      to_yaml(resolved, [](const Node& node) { return std::to_string(node.where.line); });
  if (written.find("hush-hush") != std::string::npos) std::abort();
  Node again = read_again(written);
  interpolate(again, fuzz_references(), problems);
  const TestRecipe same = TestRecipe::schema().read(again, reading);
  if (!problems.empty()) std::abort();
  if (to_yaml(escape_references(TestRecipe::schema().write(same))) !=
      to_yaml(escape_references(TestRecipe::schema().write(options)))) {
    std::abort();
  }
}

}  // namespace
}  // namespace accel

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const accel::Registry registry = accel::test_registry();
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (text.find("hush-hush") != std::string::npos) return 0;  // the text itself has the secret
  try {
    accel::compose_text(text, registry);
  } catch (const accel::RecipeError& error) {
    if (std::string(error.what()).find("hush-hush") != std::string::npos) std::abort();
  }
  return 0;
}
