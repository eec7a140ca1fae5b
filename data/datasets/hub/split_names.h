// Splits of datasets by the words in the names of files and folders, as Hugging Face's `datasets`
// finds them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace accel {

inline constexpr auto kTrainSplit = "train", kValidationSplit = "validation", kTestSplit = "test";

/// File names by split.
using FileSplits = std::map<std::string, std::vector<std::string>>;

/// The split that a name stands for as a whole, in any case: "train" of "Training"; none: "".
std::string split_of_word(std::string name);

/// By the words in folder names, or else in file names; files without a word are of none.
FileSplits splits_of_words(const std::vector<std::string>& files, bool folders);

/// Files by the words in their names; all are of one split unless each has a word.
FileSplits splits_of_file_names(const std::vector<std::string>& names);

}  // namespace accel
