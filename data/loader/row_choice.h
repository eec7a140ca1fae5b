// Choice of samples by a seed: held-out samples, and a spread sample of a dataset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/api/dataset.h"

namespace accel {

/// How samples are held out.
struct RowSplitOptions {
  double share = 0;                   ///< of the samples, in (0, 1); used if `samples` is 0
  int64_t samples = 0;                ///< number of held-out samples
  uint64_t seed = 0;                  ///< of the choice
  std::optional<bool> stratify = {};  ///< none: by class if the dataset has classes
  std::string group = {};             ///< column whose equal values stay together; empty: none
  std::string dataset = {};           ///< its component, for messages
};

/// Indices of training and held-out samples, ascending.
struct RowSplit {
  std::vector<int64_t> train;
  std::vector<int64_t> eval;
  int64_t unused = 0;  ///< windows that overlap both sides
  std::string method;  ///< for the first screen: "stratified by class, seed 0"
};

/// Splits `rows` of `dataset`, ascending indices: a pure function of the seed and the rows. Windows
/// of one sequence are not drawn: the last ones are held out, and those that overlap them are
/// unused. Throws Error (recipe) for options that the dataset does not support, and DataError if
/// one side would be empty.
RowSplit split_rows(const Dataset& dataset, const std::vector<int64_t>& rows,
                    const RowSplitOptions& options);

/// Divides `total` in proportion to `sizes`, whose sum is at least `total`: rounds down, then
/// assigns the rest to the largest remainders.
std::vector<int64_t> proportional(int64_t total, const std::vector<int64_t>& sizes);

/// `count` of the `rows`, drawn by the seed, by class in proportion if the dataset has classes;
/// all rows if there are no more.
std::vector<int64_t> spread_rows(const Dataset& dataset, std::vector<int64_t> rows, int64_t count,
                                 uint64_t seed);

/// Whether targets are one class per sample.
bool has_classes(const DataShape& shape);

/// Classes of the samples `rows`; empty unless has_classes().
std::vector<int64_t> classes_of(const Dataset& dataset, const std::vector<int64_t>& rows);

}  // namespace accel
