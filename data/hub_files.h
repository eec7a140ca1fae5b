// Which files of a dataset's repository are a split of it, as Hugging Face's `datasets` decides it.
#pragma once

#include <string>
#include <vector>

namespace accel {

struct HubChoice {
  std::string config;              ///< one of those that README.md names; empty: the default one
  std::string split;               ///< empty: train, or to evaluate validation, else test
  std::vector<std::string> files;  ///< patterns that choose in place of all of that
  bool train = true;
};

/// The files, sorted by pattern and name, all of one extension of readable_extensions(). `folder`
/// is a snapshot, or any folder laid out like a repository. What README.md says goes before names
/// such as data/train-00000-of-00002.parquet, those before folders and names that have the split's
/// name in them; where none has, all files are the split train. Throws DataError when there are
/// none, and when configs or splits are to be named.
std::vector<std::string> hub_files(const std::string& folder, const HubChoice& choice);

/// ".parquet", ".jsonl", ...
const std::vector<std::string>& readable_extensions();

}  // namespace accel
