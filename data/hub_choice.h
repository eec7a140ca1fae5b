// The options that choose among the files of a dataset's repository.
#pragma once

#include <string>
#include <vector>

#include "core/schema.h"
#include "data/arrow_rows.h"
#include "data/hub_files.h"

namespace accel {

struct HubChoiceOptions {
  std::string config;
  std::string split;
  std::vector<std::string> files;
};

/// What those options and the part of the run choose.
HubChoice choice_of(const HubChoiceOptions& options, bool train);

/// Reports `files` beside what it stands in place of.
void check_hub_choice(const HubChoiceOptions& options, const Node& node, Reading& reading);

/// The columns at `path`: a Parquet or Arrow file, a folder that `save_to_disk` wrote, or one laid
/// out like a repository of the hub. Throws DataError, also for files of other kinds.
ArrowRows open_columns(const std::string& path, const HubChoice& choice);

/// Adds the options of HubChoiceOptions, which `Options` derives from, to a schema.
template <class Options>
Schema<Options> with_hub_choice(Schema<Options> schema) {
  return std::move(schema)
      .field("config", static_cast<std::string Options::*>(&Options::config),
             "Which of the configs that its README.md names; empty: the default one.")
      .field("split", static_cast<std::string Options::*>(&Options::split),
             "Which split; empty: train, and to evaluate validation, else test.")
      .field("files", static_cast<std::vector<std::string> Options::*>(&Options::files),
             "Patterns of the files to read, such as `en/*.parquet`, in place of what config and "
             "split choose.")
      .check([](const Options& options, const Node& node, Reading& reading) {
        check_hub_choice(options, node, reading);
      });
}

}  // namespace accel
