#include "data/hub_choice.h"

#include <filesystem>

#include "core/error.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

bool is_saved(const fs::path& folder) {
  return fs::exists(folder / "dataset_dict.json") || fs::exists(folder / "state.json");
}

std::string split_of_saved(const fs::path& folder, const HubChoice& choice) {
  if (!choice.split.empty() || !fs::exists(folder / "dataset_dict.json")) return choice.split;
  if (choice.train) return "train";
  return fs::exists(folder / "validation") ? "validation" : "test";
}

}  // namespace

HubChoice choice_of(const HubChoiceOptions& options, bool train) {
  return {.config = options.config, .split = options.split, .files = options.files, .train = train};
}

void check_hub_choice(const HubChoiceOptions& options, const Node& node, Reading& reading) {
  if (options.files.empty() || (options.config.empty() && options.split.empty())) return;
  reading.problems.error(node.find("files")->node.where,
                         "'files' stands in place of 'config' and 'split'",
                         "leave out one or the other");
}

ArrowRows open_columns(const std::string& path, const HubChoice& choice) {
  require_arrow(path);
  ArrowFiles files;
  if (is_saved(path)) {
    files = arrow_files(path, split_of_saved(path, choice), ArrowFormat::kIpc);
  } else if (fs::is_directory(path)) {
    files.data = hub_files(path, choice);
  } else {
    files.data = {path};
  }
  const std::string extension = fs::path(files.data.front()).extension();
  if (extension == ".parquet") return {files, ArrowFormat::kParquet};
  if (extension == ".arrow") return {files, ArrowFormat::kIpc};
  throw DataError("'" + files.data.front() + "' is neither a Parquet nor an Arrow file",
                  "convert it, or name the files with 'files'");
}

}  // namespace accel
