// Checks of quantized models against the other options of a job.
#pragma once

namespace accel {

struct Job;
struct MeshSizes;
struct RecipeOptions;

/// Throws RecipeError where the recipe divides a quantized model over ranks, at the model's
/// `quantization` or folder.
void check_quantization(const RecipeOptions& recipe, const MeshSizes& sizes);

/// Throws RecipeError where a quantized model has no adapter to train.
void check_trains_adapter(const Job& job);

}  // namespace accel
