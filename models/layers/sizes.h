// Sizes that models derive from the data, and errors for mismatches.
#pragma once

#include <cstdint>

#include "core/api/data_shape.h"
#include "core/recipe/codec.h"

namespace accel {

/// A size option of a model and the corresponding size of the data.
struct SizeOption {
  const char* model;
  const char* name;
  Auto<int64_t> given;
  int64_t in_data;  ///< 0: unknown
};

/// The size, which must equal the data's if known. Throws Error (kRecipe) if they differ or both
/// are unknown.
int64_t equal_size(const SizeOption& option);

/// As equal_size(), but the model's size may exceed the data's.
int64_t sufficient_size(const SizeOption& option);

/// As equal_size(), for a shape; an empty one is unknown.
Shape equal_shape(const char* model, const char* option, const Auto<Shape>& given,
                  const Shape& in_data);

/// A size in a recipe with its option's name.
struct NamedSize {
  const char* name;
  int64_t value;
};

/// Whether `all` is a multiple of `part`; reports an error at `node` otherwise.
bool check_multiple(NamedSize all, NamedSize part, const Node& node, Reading& reading);

/// Number of outputs for the targets: the classes, or the numbers per target; 0 if unknown.
int64_t output_count(const DataShape& data);

/// Whether the targets are continuous.
bool has_numeric_targets(const DataShape& data);

/// Throws Error (kRecipe) unless samples are float32 of any shape, or unknown.
void want_numbers(const char* model, const DataShape& data);
/// Throws Error (kRecipe) unless samples are float32 [channels, height, width], or unknown.
void want_images(const char* model, const DataShape& data);
/// Throws Error (kRecipe) unless samples are int64 [context], or unknown.
void require_tokens(const char* model, const DataShape& data);

}  // namespace accel
