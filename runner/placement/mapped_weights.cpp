#include "runner/placement/mapped_weights.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/text.h"
#include "kernels/choice.h"
#include "models/quantized/frozen_weight.h"

namespace accel {
namespace {

std::span<const std::byte> memory_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

std::vector<std::span<const std::byte>> memories_of(const std::vector<Parameter>& weights) {
  std::vector<std::span<const std::byte>> out;
  for (const Parameter& item : weights) out.push_back(memory_of(item.local));
  return out;
}

}  // namespace

std::vector<MappedRange> file_ranges(const std::vector<Parameter>& weights) {
  const std::vector<std::span<const std::byte>> bytes = memories_of(weights);
  const std::vector<bool> mapped = are_mapped(bytes);
  const auto other = std::find(mapped.begin(), mapped.end(), false);
  if (other != mapped.end()) {
    throw Error(ExitCode::kRecipe,
                text("'{}' cannot stay on the disk: its file has another type or layout",
                     weights[static_cast<size_t>(other - mapped.begin())].name),
                "give '--offload DIR', a folder for such weights, or raise 'cpu' in "
                "'--max-memory'");
  }
  return mapped_ranges(bytes);
}

std::vector<Parameter> unmapped_vectors(const std::vector<Parameter>& weights) {
  // 4-bit codes are flat, too.
  const auto is_vector = [](const Parameter& item) {
    return item.local.dim() < 2 && item.local.scalar_type() != at::kByte;
  };
  std::vector<Parameter> vectors;
  std::copy_if(weights.begin(), weights.end(), std::back_inserter(vectors), is_vector);
  if (has_shapes_only()) {
    std::erase_if(vectors, [](const Parameter& item) { return !is_state_name(item.name); });
    return vectors;
  }
  const std::vector<bool> mapped = are_mapped(memories_of(vectors));
  std::vector<Parameter> out;
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (!mapped[i]) out.push_back(vectors[i]);
  }
  return out;
}

}  // namespace accel
