// Selection of the files of a dataset repository by config and split, with the rules of Hugging
// Face's `datasets`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/recipe/schema.h"
#include "data/datasets/hub/arrow_rows.h"
#include "data/store/streaming_section.h"

namespace accel {

struct HubChoice {
  std::string config;              ///< a config of README.md; empty: the default config
  std::string split;               ///< empty: train, or for evaluation validation, else test
  std::vector<std::string> files;  ///< patterns that replace config and split
  bool train = true;
};

/// The files, sorted by pattern and name, with one extension of readable_extensions(). `folder` is
/// a snapshot or a folder with a repository's layout. Sources in order of precedence: README.md;
/// names such as data/train-00000-of-00002.parquet; the split's name in folder or file names;
/// otherwise all files are the split train. Throws DataError without files, and if a config or
/// split must be named.
std::vector<std::string> hub_files(const std::string& folder, const HubChoice& choice);

/// The files of the dataset at a URL: one file, or numbered ones, or those of a folder. That may be
/// one of save_to_disk, whose last `indices` files are row numbers.
struct HubObjects {
  std::shared_ptr<StreamedObjects> objects;
  size_t indices = 0;
};

/// Where a dataset is, and what of it.
struct HubData {
  DataPath location;
  StreamingSection streaming;
  HubChoice choice;
};

enum class SavedDatasets { kRecognize, kIgnore };  ///< kIgnore: they are folders with files

/// As hub_files(), of a URL. On a server without listings HubChoice::files names all files; numbers
/// in braces are a range. Throws DataError.
HubObjects stream_hub_files(const HubData& data, SavedDatasets saved);

/// All files of rows below a folder, relative to it and sorted, without hidden ones and the
/// metadata of `datasets`.
std::vector<std::string> row_files(const std::string& folder);

/// ".parquet", ".jsonl", ...
const std::vector<std::string>& readable_extensions();

/// For each row a hash of its value in `column`. Throws DataError as open_columns(), and for a
/// missing column and null values.
std::vector<uint64_t> column_keys(const HubData& data, const std::string& column);

struct HubChoiceOptions {
  std::string config;
  std::string split;
  std::vector<std::string> files;
};

/// The selection by the options and by training or evaluation.
HubChoice choice_of(const HubChoiceOptions& options, bool train);

/// Reports `files` together with `config` or `split`, which it replaces.
void check_hub_choice(const HubChoiceOptions& options, const Node& node, Reading& reading);

/// The columns of a Parquet or Arrow file, a folder of `save_to_disk`, or a folder with the layout
/// of a hub repository. Throws DataError, also for other file types.
ArrowRows open_columns(const HubData& data);

/// Refuses a choice where the path is a file. Throws DataError.
void require_no_choice(const std::string& file, const HubChoice& choice);

inline constexpr auto kHubDataHelp =
    "`hf:datasets/organisation/name`, a folder of save_to_disk, or a file; or the URL of a folder "
    "or file.";

/// Adds HubChoiceOptions, a base of `Options`, to a schema.
template <class Options>
Schema<Options> with_hub_choice(Schema<Options> schema) {
  return std::move(schema)
      .field("config", static_cast<std::string Options::*>(&Options::config),
             "Which of the configs that its README.md names; empty: the default one.")
      .field("split", static_cast<std::string Options::*>(&Options::split),
             "Which split; empty: train, and to evaluate validation, else test.")
      .field("files", static_cast<std::vector<std::string> Options::*>(&Options::files),
             "Patterns of the files to read, such as `en/*.parquet`; replaces config and split.")
      .check([](const Options& options, const Node& node, Reading& reading) {
        check_hub_choice(options, node, reading);
      });
}

}  // namespace accel
