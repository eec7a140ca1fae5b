// What a run shows besides numbers: pictures of its data, weights, texts.
#pragma once

#include <cstdint>

#include "data/loader.h"

namespace accel {

struct LoopParts;

/// The distribution of every parameter, to the trackers.
void show_histograms(const LoopParts& parts, int64_t step);

/// As many of the window's inputs as `log.images` says, to the trackers and, where the run keeps
/// anything, to the folder of the report's samples.
void show_images(const LoopParts& parts, const Window& window);

/// What callbacks have to tell, to the trackers, the record and the log.
void show_texts(const LoopParts& parts, int64_t step);

}  // namespace accel
