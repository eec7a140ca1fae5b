// Models that tools/export_model.py --aoti compiled: an archive of shared objects, the weights they
// are given, and a table of what goes where.
#pragma once

#include <string>
#include <vector>

#include "core/array.h"
#include "runner/formats/bytes.h"
#include "runner/formats/mapped_file.h"
#include "runner/formats/pt2.h"

namespace accel {

/// What a compiled pass takes or gives.
struct CompiledOperand {
  enum class Kind {
    kTensor,  ///< a parameter or buffer; of the backward pass's outputs: its gradient
    kInput,   ///< an argument of the Python module's forward()
    kOutput,  ///< what forward() gave; of the backward pass's inputs: its gradient
    kBuffer,  ///< a buffer's new value
    kKept,    ///< computed by the forward pass for the backward one
  };
  Kind kind;
  size_t index = 0;  ///< among tensors, inputs, or what is kept
};

struct CompiledPass {
  std::vector<CompiledOperand> inputs, outputs;
  ByteSpan code;   ///< a shared object for this processor
  ByteSpan table;  ///< of operators that it asks libtorch for by name; may be empty
};

struct CompiledTensor {
  std::string name;
  bool is_parameter;
  bool is_saved;    ///< in Python's state_dict()
  bool is_trained;  ///< asks for gradients
  size_t same_as;   ///< its own index, or that of the earlier tensor that it is
  Array data = {};  ///< into the file; none for one that is another
};

struct CompiledInput {
  std::string name;
  DType type;
  std::vector<Pt2Size> sizes;
};

struct CompiledModel {
  std::string torch;             ///< that compiled it: "2.11.0"
  std::vector<std::string> cpu;  ///< the processor's extensions that its code may use
  std::vector<CompiledInput> inputs;
  std::vector<CompiledTensor> tensors;
  CompiledPass forward, backward;  ///< of training
  CompiledPass evaluate;
  size_t kept = 0;  ///< values that the forward pass keeps for the backward one
  SharedBytes file;
};

/// Reads the archive; runs nothing. Throws FormatError for one that is damaged, whose passes do not
/// fit together, or whose code is for another kind of processor.
CompiledModel read_compiled_model(const SharedBytes& file);

/// The first of `wanted` that a processor does not have whose extensions `cpuinfo` tells, in the
/// form of /proc/cpuinfo; empty: it has all, or the text tells nothing of extensions.
std::string missing_extension(const std::vector<std::string>& wanted, const std::string& cpuinfo);

}  // namespace accel
