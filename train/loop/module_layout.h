// The layout of transformers' module of a job's model in checkpoints.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/stored_layout.h"
#include "train/job/job.h"

namespace accel {

struct HfNames;

/// Of parameters and buffers in the model's order.
StoredLayout module_layout(const HfNames& names, const std::vector<Parameter>& parameters,
                           const std::vector<Parameter>& buffers);

/// Of transformers' module; null if transformers has none for the model or the model has an
/// adapter.
std::shared_ptr<const StoredLayout> module_layout(const Job& job);

/// That in which checkpoints are written: of models that people also write themselves, such as
/// GPT-2 with nn.Linear, only those from a Hugging Face folder have transformers'. Null: the
/// model's own.
std::shared_ptr<const StoredLayout> written_layout(const Job& job);

}  // namespace accel
