// Reader of torch.export programs: .pt2 archives, their graphs and tensors.
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/array.h"
#include "core/base/bytes.h"
#include "core/base/mapped_file.h"

namespace accel {

struct Pt2Graph;

/// An input or computed value of a graph: an index below Pt2Graph::slots.
struct Pt2Slot {
  size_t index;
};

/// An enumerator by its number in torch.export's format, which differs from libtorch's.
struct Pt2Code {
  enum class Kind { kScalarType, kMemoryFormat, kLayout };
  Kind kind;
  int64_t number;
};

/// Device type of the exporting program: "cpu", "cuda".
struct Pt2Device {
  std::string type;
};

/// An argument or result of an operator; monostate is None.
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

/// One operator call.
struct Pt2Node {
  std::string name;    ///< "linear_2"
  std::string target;  ///< "torch.ops.aten.linear.default"
  std::string module;  ///< the Python module that called it, "layers.0.mlp"; "" is the outermost
  std::vector<std::pair<std::string, Pt2Argument>> arguments;  ///< by name; "" by position
  std::vector<Pt2Argument> outputs;  ///< slots, lists of slots, or None if unused
};

/// Operator calls in order. Each slot is written once, before it is read.
struct Pt2Graph {
  std::vector<Pt2Argument> inputs;  ///< slots, or constants of the exporting program
  std::vector<Pt2Node> nodes;
  std::vector<Pt2Argument> outputs;
  size_t slots = 0;
};

/// A static size, or the range of a dynamic one.
struct Pt2Size {
  int64_t least;
  int64_t most;  ///< INT64_MAX: unbounded
};

/// Type and sizes of an input at export.
struct Pt2TensorMeta {
  int64_t dtype;  ///< a Pt2Code of Kind::kScalarType
  std::vector<Pt2Size> sizes;
};

/// An input of the program's graph, in the graph's order.
struct Pt2Input {
  enum class Kind { kUser, kParameter, kBuffer, kConstant };
  Kind kind;
  std::string name;         ///< of the tensor in the Python module, or of the argument of forward()
  bool persistent = true;   ///< of a buffer: whether it is in state_dict()
  Pt2Argument value = {};   ///< its slot
  Pt2TensorMeta meta = {};  ///< of a user's tensor
};

struct Pt2Program {
  Pt2Graph graph;
  std::vector<Pt2Input> inputs;           ///< one per input of the graph, in order
  std::vector<std::string> output_names;  ///< of the graph's outputs: a dict's keys, or "0", "1"
};

/// A tensor of the Python module: a strided view of a storage.
struct Pt2Tensor {
  std::string storage;  ///< tensors with an equal storage share memory
  ByteSpan bytes;       ///< all of the storage
  DType type;
  Shape sizes, strides;
  int64_t offset;  ///< in elements
  bool requires_grad;
};

struct Pt2File {
  std::map<std::string, Pt2Program> programs;  ///< "model", or the name given to package_pt2()
  std::map<std::string, Pt2Tensor> tensors;    ///< parameters, buffers and constants by name
  SharedBytes file;                            ///< owner of the tensors' bytes
};

/// Reads an archive of torch.export.save() or package_pt2() without running or unpickling anything.
/// Several programs share parameters and buffers of the same name. Constants belong to one program,
/// whose name they begin with: "eval/lifted_tensor_0". Throws FormatError, also for unsupported
/// kinds of arguments and inputs.
Pt2File read_pt2(const SharedBytes& file);

/// Checks all CRC-32s of the archive. Throws FormatError.
void check_pt2(const SharedBytes& file);

/// Converts a program exported in training mode to evaluation: dropout is off, norms use and do not
/// update running statistics. Other uses of `self.training` need an export in evaluation mode.
Pt2Program evaluation_of(const Pt2Program& program);

}  // namespace accel
