// What the recipes of all transformers have in common.
#pragma once

#include <cstdint>
#include <utility>

#include "core/schema.h"

namespace accel {

/// Declares `vocab`, `context` with what it means here, `layers` and `heads`.
template <class Options>
Schema<Options> transformer_schema(const char* context) {
  const auto count = at_least<int64_t>(1);
  return Schema<Options>()
      .field("vocab", &Options::vocab, "Token ids are below this.",
             if_given<Auto>(at_least<int64_t>(2)))
      .on_resume(Change::kImpossible)
      .field("context", &Options::context, context, if_given<Auto>(count))
      .on_resume(Change::kImpossible)
      .field("layers", &Options::layers, "Blocks.", count)
      .on_resume(Change::kImpossible)
      .field("heads", &Options::heads, "Attention heads in a block.", count)
      .on_resume(Change::kImpossible);
}

/// Declares the width of what goes from block to block, and of the MLP inside a block.
template <class Options>
Schema<Options> with_widths(Schema<Options> schema, const char* hidden) {
  const auto count = at_least<int64_t>(1);
  return std::move(schema)
      .field("width", &Options::width, "Numbers per token between the blocks.", count)
      .on_resume(Change::kImpossible)
      .field("hidden", &Options::hidden, hidden, if_given<Auto>(count))
      .on_resume(Change::kImpossible);
}

}  // namespace accel
