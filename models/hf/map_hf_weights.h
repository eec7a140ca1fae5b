// Mapping of the weights of Hugging Face folders, for inference.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

namespace accel {

/// While it exists, load_weights() on this thread lets weights share the mapped file's memory,
/// which cannot be written. Copied are weights of other types, and transposed ones.
class MapHfWeights {
 public:
  /// Floating-point weights that the file has as `dtype` get this type. Does not nest.
  explicit MapHfWeights(std::optional<c10::ScalarType> dtype = {});
  ~MapHfWeights();
  static bool is_active();
  MapHfWeights(const MapHfWeights&) = delete;
  MapHfWeights& operator=(const MapHfWeights&) = delete;
};

}  // namespace accel
