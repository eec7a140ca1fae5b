#include "train/recipe/model_size.h"

#include <charconv>
#include <cstdint>

#include "core/base/text.h"
#include "core/recipe/located_error.h"

namespace accel {
namespace {

/// A key of a section with its largest number.
struct LargestNumber {
  int64_t value = 0;
  std::string key;
  Span where;
};

void find_largest(const Node& node, const std::string& key, LargestNumber& largest) {
  if (const Scalar* scalar = node.scalar(); scalar && !scalar->quoted) {
    const char* const end = scalar->text.data() + scalar->text.size();
    int64_t number = 0;
    const bool whole = std::from_chars(scalar->text.data(), end, number).ptr == end;
    if (whole && number > largest.value) largest = {number, key, node.where};
  }
  if (const Node::List* list = node.list()) {
    const int64_t before = largest.value;
    for (const Node& item : *list) find_largest(item, key, largest);
    // Items of a resolved recipe have no positions.
    if (largest.value > before && !largest.where.source) largest.where = node.where;
  }
  if (const Node::Map* map = node.map()) {
    for (const Node::Entry& entry : *map) find_largest(entry.node, key + '.' + entry.key, largest);
  }
}

/// Without a number, the place of the section.
LargestNumber largest_of(const Node& recipe, const std::string& name) {
  LargestNumber largest;
  const Node::Entry* section = recipe.find(name);
  if (section) find_largest(section->node, name, largest);
  if (largest.key.empty()) largest.where = section ? section->node.where : recipe.where;
  return largest;
}

}  // namespace

void throw_too_large(const std::string& what, const std::string& reason, const Node& recipe,
                     const std::string& name) {
  const LargestNumber largest = largest_of(recipe, name);
  throw LocatedError(
      ExitCode::kMemory,
      {largest.where, text("{} does not fit into memory: {}", what, reason),
       largest.key.empty() ? std::string("make the model or the samples smaller")
                           : text("lower '{}', the largest number of '{}'", largest.key, name)});
}

void check_model_size(const Node& recipe, const std::string& type) {
  constexpr int64_t kMost = (int64_t{1} << 40) / sizeof(float);
  const LargestNumber largest = largest_of(recipe, "model");
  if (largest.value < kMost) return;
  throw_too_large(text("the model '{}'", type),
                  text("a weight of {} numbers has 1 TiB or more", largest.value), recipe, "model");
}

}  // namespace accel
