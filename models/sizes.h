// Sizes that models take from the data, and the errors when a model and the data do not fit.
#pragma once

#include <cstdint>

#include "core/codec.h"
#include "core/data_shape.h"

namespace accel {

/// One size option of a model beside what the data says about it.
struct SizeOption {
  const char* model;
  const char* name;
  Auto<int64_t> given;
  int64_t in_data;  ///< 0: the data does not say
};

/// The size, which must be the data's own where that is known. Throws Error (kRecipe) when they
/// differ, or when neither says.
int64_t equal_size(const SizeOption& option);

/// As equal_size(), but the model may be larger than the data needs.
int64_t sufficient_size(const SizeOption& option);

/// As equal_size(), for a shape; an empty one is unknown.
Shape equal_shape(const char* model, const char* option, const Auto<Shape>& given,
                  const Shape& in_data);

/// A size in a recipe and its option's name.
struct NamedSize {
  const char* name;
  int64_t value;
};

/// Whether `all` is a multiple of `part`; if not, that is reported at `node`.
bool check_multiple(NamedSize all, NamedSize part, const Node& node, Reading& reading);

/// Outputs that fit the targets: the classes, or the numbers of one target; 0 when unknown.
int64_t output_count(const DataShape& data);

/// Whether the targets are numbers to come close to rather than classes.
bool has_numeric_targets(const DataShape& data);

/// Throws Error (kRecipe) unless a sample is F32 numbers of any shape, or nothing is known.
void want_numbers(const char* model, const DataShape& data);
/// Throws Error (kRecipe) unless a sample is F32 [channels, height, width], or nothing is known.
void want_images(const char* model, const DataShape& data);
/// Throws Error (kRecipe) unless a sample is I64 [context], or nothing is known.
void want_tokens(const char* model, const DataShape& data);

}  // namespace accel
