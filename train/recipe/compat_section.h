// `compat` of a recipe: forms of an Accelerate script that a run equals.
#pragma once

#include "core/recipe/schema.h"

namespace accel {

struct RecipeOptions;

/// The generator from which a script's DataLoader draws seeds.
enum class DataloaderGenerator { kOwn, kShared };
template <>
struct EnumNames<DataloaderGenerator> {
  static constexpr std::pair<DataloaderGenerator, const char*> kValues[] = {
      {DataloaderGenerator::kOwn, "own"}, {DataloaderGenerator::kShared, "shared"}};
};

/// Random draws of torch's DataLoader and Accelerate's prepare() in one process.
struct CompatSection {
  DataloaderGenerator dataloader_generator = DataloaderGenerator::kOwn;
  bool use_seedable_sampler = true;  ///< of Accelerate's DataLoaderConfiguration
  static Schema<CompatSection> schema();
};

/// Errors of `compat` together with other sections.
void check_compat(const RecipeOptions& recipe, const Node& node, Reading& reading);

}  // namespace accel
