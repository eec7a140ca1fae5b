// Low-rank adapters for programs that Python exported: calls that are written into their graphs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/batch.h"
#include "models/lora_options.h"
#include "runner/formats/pt2.h"

namespace accel {

/// A linear layer of the Python module: what a call multiplies by one of its parameters.
struct ProgramLinear {
  std::string name;  ///< of the module that calls it, "layers.0.attn"
  int64_t inputs;
  int64_t outputs;
};

/// Those of the program itself, in the order of their first calls; graphs within it, such as that
/// of a `with torch.autocast()`, are not searched.
std::vector<ProgramLinear> linears_of(const Pt2Program& program, const Pt2File& file);

/// A matrix pair for each layer that fits `lora.targets`, ready to be trained, under PEFT's names
/// and with its numbers. Throws Error (kRecipe) for a pattern that fits none of `linears`.
std::vector<NamedTensor> make_adapters(const std::vector<ProgramLinear>& linears,
                                       const LoraOptions& lora);

/// The program with the calls of `adapters`, which become parameters of it.
Pt2Program with_adapters(Pt2Program program, const std::vector<NamedTensor>& adapters,
                         const LoraOptions& lora);

/// Copies what PEFT wrote, where `lora` names its folder, into `adapters` and into those of the
/// program's `own` parameters and buffers that fit `lora.also`. Throws DataError for weights that
/// do not fit.
void load_program_adapter(const std::vector<NamedTensor>& adapters,
                          const std::vector<NamedTensor>& own, const LoraOptions& lora);

/// Takes all of `parameters` out of training but those that fit `lora.also`. Throws Error (kRecipe)
/// for a pattern that fits none of them and none of `buffers`, which come with an adapter's
/// modules.
void train_adapters_only(const std::vector<NamedTensor>& parameters,
                         const std::vector<NamedTensor>& buffers, const LoraOptions& lora);

}  // namespace accel
