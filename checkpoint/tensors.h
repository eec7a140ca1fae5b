// Conversion between tensors and the arrays of file formats.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "core/api/state_swapper.h"
#include "core/base/array.h"
#include "formats/tensors/pickle.h"

namespace accel {

/// Shares the memory of a contiguous CPU tensor, else copies. Throws std::invalid_argument with
/// `name` for an undefined tensor or an unsupported dtype.
Array array_of(const at::Tensor& tensor, const std::string& name);

/// Shares the memory of an aligned array, else copies.
at::Tensor tensor_of(const Array& array);

/// A deep copy on the host.
at::Tensor host_copy(const at::Tensor& tensor);

/// Copies a checkpoint's weights into a model's tensors. Throws CheckpointError when names or
/// shapes differ. `swapper`: of parameters that are swapped out.
void copy_weights(const std::vector<Parameter>& parameters, const std::vector<Parameter>& buffers,
                  const std::vector<Parameter>& from, StateSwapper* swapper = nullptr);

/// As copy_weights(), but parameters on the CPU share the checkpoint's memory, which may be a
/// mapped file, and free their own. Copied are buffers, weights of other types, and those whose
/// memory is strided or shared with other tensors.
void adopt_weights(const std::vector<Parameter>& parameters, const std::vector<Parameter>& buffers,
                   const std::vector<Parameter>& from);

/// Upper bound of a step count, exact as a double.
constexpr double kMostSteps = 0x1p40;

/// The items of a list or tuple. These functions throw a FormatError that names `what`.
const std::vector<Value>& items_of(const Value* value, const char* what);

const Value::Dict& dict_in(const Value* value, const char* what);

/// A bool, int, float or tensor of one element as a double.
std::optional<double> number_in(const Value& value);

std::vector<double> numbers_in(const Value* value, const char* what);

}  // namespace accel
