#include "data/datasets/hub/split_names.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "core/base/text.h"

namespace accel {
namespace {

constexpr const char* kSplitWords[][2] = {
    {"train", kTrainSplit},      {"training", kTrainSplit}, {"validation", kValidationSplit},
    {"valid", kValidationSplit}, {"dev", kValidationSplit}, {"val", kValidationSplit},
    {"test", kTestSplit},        {"testing", kTestSplit},   {"eval", kTestSplit},
    {"evaluation", kTestSplit}};

/// Whether `name` contains `word`, delimited by its ends or by separators.
bool has_word(const std::string& name, const std::string& word, bool ends_name) {
  constexpr std::string_view kEnds = "-._ 0123456789";
  for (size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1)) {
    const size_t behind = at + word.size();
    const bool begins = at == 0 || kEnds.find(name[at - 1]) != kEnds.npos;
    const bool ends = behind == name.size() ? ends_name : kEnds.find(name[behind]) != kEnds.npos;
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

std::string split_of_word(std::string name) {
  name = ascii_lower(name);
  for (const auto& [word, split] : kSplitWords) {
    if (name == word) return split;
  }
  return "";
}

FileSplits splits_of_words(const std::vector<std::string>& files, bool folders) {
  FileSplits out;
  for (const auto& [word, split] : kSplitWords) {
    for (const std::string& file : files) {
      const std::filesystem::path path = file;
      const std::filesystem::path parent = path.parent_path();
      const bool found = folders ? std::any_of(parent.begin(), parent.end(),
                                               [&, word = word](const std::filesystem::path& part) {
                                                 return has_word(part.string(), word, true);
                                               })
                                 : has_word(path.filename(), word, false);
      std::vector<std::string>& in = out[split];
      if (found && std::find(in.begin(), in.end(), file) == in.end()) in.push_back(file);
    }
  }
  std::erase_if(out, [](const auto& item) { return item.second.empty(); });
  return out;
}

FileSplits splits_of_file_names(const std::vector<std::string>& names) {
  FileSplits found = splits_of_words(names, false);
  size_t placed = 0;
  for (const auto& [split, files] : found) placed += files.size();
  return placed == names.size() ? found : FileSplits{{kTrainSplit, names}};
}

}  // namespace accel
