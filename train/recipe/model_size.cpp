#include "train/recipe/model_size.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "core/base/text.h"
#include "core/recipe/located_error.h"
#include "core/recipe/scalar.h"

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

void find_two_largest(const Node& node, double& largest, double& second) {
  if (const Scalar* scalar = node.scalar(); scalar && !scalar->quoted) {
    const double number = static_cast<double>(parse_integer(*scalar).value.value_or(0));
    second = std::max(second, std::min(largest, number));
    largest = std::max(largest, number);
  }
  if (const Node::List* list = node.list()) {
    for (const Node& item : *list) find_two_largest(item, largest, second);
  }
  if (const Node::Map* map = node.map()) {
    for (const Node::Entry& entry : *map) find_two_largest(entry.node, largest, second);
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

Span largest_size(const Node& recipe, const std::string& name) {
  return largest_of(recipe, name).where;
}

bool may_exceed(const Node& recipe, int64_t bytes) {
  double largest = 1, second = 1;
  for (const char* name : {"model", "task"}) {
    const Node::Entry* section = recipe.find(name);
    if (section) find_two_largest(section->node, largest, second);
  }
  // At most `second` layers, each of 16 matrices of `largest` x `largest`, with Adam's state.
  constexpr double kMatrices = 16, kNumbersOfWeight = 4;
  const double numbers = largest * largest * second * kMatrices * kNumbersOfWeight;
  return numbers * sizeof(float) > static_cast<double>(bytes);
}

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
