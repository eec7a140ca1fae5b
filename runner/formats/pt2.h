// Programs that torch.export wrote: .pt2 archives, their graphs and their tensors.
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/array.h"
#include "runner/formats/bytes.h"
#include "runner/formats/mapped_file.h"

namespace accel {

struct Pt2Graph;

/// A value that the graph computes or is given, by its place in a table of Pt2Graph::slots values.
struct Pt2Slot {
  size_t index;
};

/// An enumerator by its number in torch.export's format, which is none of libtorch's.
struct Pt2Code {
  enum class Kind { kScalarType, kMemoryFormat, kLayout };
  Kind kind;
  int64_t number;
};

/// Where the exporting program computed: "cpu", "cuda".
struct Pt2Device {
  std::string type;
};

/// What an operator takes or gives. monostate is Python's None.
struct Pt2Argument {
  using List = std::vector<Pt2Argument>;
  std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string, Pt2Slot,
               Pt2Code, Pt2Device, List, std::shared_ptr<const Pt2Graph>>
      value;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
};

/// One call.
struct Pt2Node {
  std::string name;    ///< "linear_2"
  std::string target;  ///< "torch.ops.aten.linear.default"
  std::string module;  ///< the Python module that called it, "layers.0.mlp"; "" is the outermost
  std::vector<std::pair<std::string, Pt2Argument>> arguments;  ///< by name; "" by position
  std::vector<Pt2Argument> outputs;  ///< slots, lists of slots, or None for what nobody uses
};

/// Calls in order. Each slot is written once, before it is read.
struct Pt2Graph {
  std::vector<Pt2Argument> inputs;  ///< a slot each, or what the exporting program took for given
  std::vector<Pt2Node> nodes;
  std::vector<Pt2Argument> outputs;
  size_t slots = 0;
};

/// A size that is known, or lies in a range.
struct Pt2Size {
  int64_t least;
  int64_t most;  ///< INT64_MAX: any
};

/// What the program was exported for.
struct Pt2TensorMeta {
  int64_t dtype;  ///< a Pt2Code of Kind::kScalarType
  std::vector<Pt2Size> sizes;
};

/// An input of the program's graph, in the graph's order.
struct Pt2Input {
  enum class Kind { kUser, kParameter, kBuffer, kConstant };
  Kind kind;
  std::string name;  ///< of the tensor in the Python module, or of the argument of its forward()
  bool persistent = true;   ///< of a buffer: whether Python's state_dict() has it
  Pt2Argument value = {};   ///< its slot
  Pt2TensorMeta meta = {};  ///< of a user's tensor
};

struct Pt2Program {
  Pt2Graph graph;
  std::vector<Pt2Input> inputs;           ///< as many as the graph's, in the same order
  std::vector<std::string> output_names;  ///< of the graph's outputs: a dict's keys, or "0", "1"
};

/// A tensor of the Python module, as a view of a run of bytes that several may share.
struct Pt2Tensor {
  std::string storage;  ///< two tensors with the same one share memory
  ByteSpan bytes;       ///< all of the storage
  DType type;
  Shape sizes, strides;
  int64_t offset;  ///< in elements
  bool requires_grad;
};

struct Pt2File {
  std::map<std::string, Pt2Program> programs;  ///< "model", or what they were packed as
  std::map<std::string, Pt2Tensor> tensors;    ///< parameters, buffers and constants by name
  SharedBytes file;                            ///< what the tensors' bytes are part of
};

/// Reads an archive of torch.export.save() or package_pt2(). Several programs may be in it, of one
/// module: they share the parameters and buffers of the same name, while each has constants of its
/// own, whose names begin with the program's: "eval/lifted_tensor_0". Nothing is run or unpickled.
/// Throws FormatError, also for kinds of arguments and inputs that there is no way to give.
Pt2File read_pt2(const SharedBytes& file);

/// Compares the bytes of everything in the archive with its checksums. Throws FormatError.
void check_pt2(const SharedBytes& file);

/// A program exported for training, for evaluation: dropout passes everything on, norms use their
/// running statistics and count no batch. Where the Python module asks `self.training` in other
/// ways, only a program that was exported in evaluation knows.
Pt2Program evaluation_of(const Pt2Program& program);

}  // namespace accel
