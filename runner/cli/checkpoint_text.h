// Checkpoints told to a person.
#pragma once

#include <string>
#include <vector>

#include "runner/checkpoint/store.h"

namespace accel {

/// One line for each checkpoint of a run, the oldest first: step, epoch, bytes, metrics, whether it
/// is whole.
std::string list_text(const CheckpointStore& store);

/// What a checkpoint holds: progress, tensors by part, files, metrics, environment.
std::string inspect_text(const TrainState& state, const std::vector<DirEntry>& files);

/// Everything in which two states differ, most telling first; empty when they are equal to the last
/// bit. Recipes, times and tracker ids are not compared.
std::vector<std::string> differences(const TrainState& a, const TrainState& b);

}  // namespace accel
