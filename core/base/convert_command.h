// The command that converts a Parquet or Arrow file, for hints.
#pragma once

#include <string>

#include "core/base/text.h"

namespace accel {

/// A shell command that writes `path` as JSON Lines (`.jsonl`) or as a table (`.csv`) beside it.
inline std::string convert_command(const std::string& path, const std::string& extension) {
  const bool arrow = path.ends_with(".arrow");
  const std::string stem = path.substr(0, path.rfind('.'));
  const char* const options = extension == ".csv" ? (arrow ? "" : ", index=False")
                              : arrow             ? ""
                                                  : ", orient='records', lines=True";
  return text("python3 -c \"import {}('{}').to_{}('{}{}'{})\"",
              arrow ? "datasets; datasets.Dataset.from_file" : "pandas; pandas.read_parquet", path,
              extension == ".csv" ? "csv" : "json", stem, extension, options);
}

}  // namespace accel
