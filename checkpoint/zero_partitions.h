// The layout of parameters in the flat partitions of ZeRO (Rajbhandari et al., SC 2020).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/array.h"

namespace accel {

/// Elements of a rank's flat partition, one after another.
struct ZeroPiece {
  size_t rank;
  size_t partition;  ///< of the rank's flat tensors
  int64_t first;
  int64_t count;
};

/// A trained parameter and its elements, in their order.
struct ZeroParameter {
  std::string name;
  Shape shape;
  size_t group;  ///< of the optimizer's
  std::vector<ZeroPiece> pieces = {};
};

/// The trained parameters by group, with the elements of padding behind each of them.
struct ZeroGroup {
  std::vector<ZeroParameter> parameters;
  std::vector<int64_t> padding;  ///< empty: none
};

/// Elements of the flat tensors by rank: one for each group, or more at stage 3.
using PartitionSizes = std::vector<std::vector<int64_t>>;

/// Stages 1 and 2: the parameters of a group, one after another, are divided over ranks. Throws
/// FormatError where they do not fill the partitions.
std::vector<ZeroParameter> place_groups(std::vector<ZeroGroup> groups, const PartitionSizes& sizes);

/// Stage 3: each parameter is divided over ranks, in equal parts with padding at the end. A rank's
/// parts lie one after another in its flat tensors. Throws FormatError.
std::vector<ZeroParameter> place_each(std::vector<ZeroGroup> groups, const PartitionSizes& sizes);

/// A rank's flat tensor.
using FlatTensor = std::function<const Array&(size_t rank, size_t partition)>;

/// The parameter's elements of flat tensors of these sizes: a view where one has all of them.
/// Throws FormatError for tensors of several types.
Array join_pieces(const ZeroParameter& parameter, const FlatTensor& flat);

}  // namespace accel
