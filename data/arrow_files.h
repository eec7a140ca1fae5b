// Which files a path to Parquet or Arrow data stands for.
#pragma once

#include <string>
#include <vector>

#include "runner/formats/arrow_records.h"

namespace accel {

struct ArrowFiles {
  std::vector<std::string> data;     ///< in the order of their rows
  std::vector<std::string> indices;  ///< given: which of those rows there are, in their order
};

/// The files of a dataset: the one that `path` is, or those of a folder, by name. A
/// folder may be one that Hugging Face's `save_to_disk` wrote, of a dataset or of several splits,
/// of which `split` names one. Files named as the hub names them, "train-00000-of-00002.parquet",
/// are told apart by it too. Throws DataError when there are none, or of several splits none is
/// named.
ArrowFiles arrow_files(const std::string& path, const std::string& split, ArrowFormat format);

}  // namespace accel
