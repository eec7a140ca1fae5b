// Low-rank adapters of exported programs, inserted as calls into their graphs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "formats/program/pt2.h"
#include "models/lora/lora_options.h"

namespace accel {

/// A linear layer of the Python module: a call that multiplies by a parameter.
struct ProgramLinear {
  std::string name;  ///< of the module that calls it, "layers.0.attn"
  int64_t inputs;
  int64_t outputs;
};

/// The linear layers of the top-level graph in call order; subgraphs, such as those of `with
/// torch.autocast()`, are not searched.
std::vector<ProgramLinear> linears_of(const Pt2Program& program, const Pt2File& file);

/// Trainable adapter matrices for the layers that match `lora.target_modules`, with PEFT's names
/// and initialization. Throws Error (kRecipe) for a pattern without a match.
std::vector<Parameter> make_adapters(const std::vector<ProgramLinear>& linears,
                                     const LoraOptions& lora);

/// The program with the calls of `adapters`, which become its parameters.
Pt2Program with_adapters(Pt2Program program, const std::vector<Parameter>& adapters,
                         const LoraOptions& lora);

/// Loads the adapter folder of `lora`, if any, into `adapters` and into the parameters and buffers
/// `own` that match `lora.modules_to_save`. Throws DataError for mismatched weights.
void load_program_adapter(const std::vector<Parameter>& adapters, const std::vector<Parameter>& own,
                          const LoraOptions& lora);

/// Freezes all `parameters` except those that match `lora.modules_to_save`. Throws Error (kRecipe)
/// for a pattern that matches neither them nor `buffers`.
void train_adapters_only(const std::vector<Parameter>& parameters,
                         const std::vector<Parameter>& buffers, const LoraOptions& lora);

}  // namespace accel
