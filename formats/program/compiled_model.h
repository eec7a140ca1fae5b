// Reader of models compiled by tools/export_model.py --aoti: an archive of shared objects, weights
// and a table of their inputs and outputs.
#pragma once

#include <string>
#include <vector>

#include "core/base/array.h"
#include "core/base/bytes.h"
#include "core/base/mapped_file.h"
#include "formats/program/pt2.h"

namespace accel {

/// An input or output of a compiled pass.
struct CompiledOperand {
  enum class Kind {
    kTensor,  ///< a parameter or buffer; as an output of backward: its gradient
    kInput,   ///< an argument of forward()
    kOutput,  ///< the result of forward(); as an input of backward: its gradient
    kBuffer,  ///< the new value of a buffer
    kSaved,   ///< saved by the forward pass for the backward pass
  };
  Kind kind;
  size_t index = 0;  ///< into tensors, inputs, or saved values
};

struct CompiledPass {
  std::vector<CompiledOperand> inputs, outputs;
  ByteSpan code;   ///< a shared object for this processor
  ByteSpan table;  ///< of operators called through libtorch by name; may be empty
};

struct CompiledTensor {
  std::string name;
  bool is_parameter;
  bool is_saved;    ///< in Python's state_dict()
  bool is_trained;  ///< requires_grad
  size_t same_as;   ///< index of the tensor that it aliases, or its own
  Array data = {};  ///< into the file; none for an alias
};

struct CompiledInput {
  std::string name;
  DType type;
  std::vector<Pt2Size> sizes;
};

struct CompiledModel {
  std::string torch;             ///< version that compiled it: "2.11.0"
  std::vector<std::string> cpu;  ///< CPU extensions that the code may use
  std::vector<CompiledInput> inputs;
  std::vector<CompiledTensor> tensors;
  CompiledPass forward, backward;  ///< of training
  CompiledPass evaluate;
  size_t saved = 0;  ///< number of values saved for the backward pass
  SharedBytes file;
};

/// Reads the archive without running its code. Throws FormatError for a damaged archive, passes
/// that do not match, and code for another CPU architecture.
CompiledModel read_compiled_model(const SharedBytes& file);

/// The first extension of `wanted` that is missing in `cpuinfo`, a text as in /proc/cpuinfo. Empty
/// when all are present or the text lists none.
std::string missing_extension(const std::vector<std::string>& wanted, const std::string& cpuinfo);

}  // namespace accel
