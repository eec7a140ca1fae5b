// The sources of records that datasets of texts read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/arrow_files.h"
#include "data/text_records.h"
#include "runner/formats/arrow_records.h"
#include "runner/formats/csv.h"

namespace accel {

/// An object a line.
std::unique_ptr<RecordSource> json_lines_source(const std::string& path);

/// The rows of one or more files of a format, as those of one. Throws DataError where this build
/// lacks the part for it.
std::unique_ptr<RecordSource> arrow_source(const ArrowFiles& files, ArrowFormat format);

/// Records under a first one that names their columns.
std::unique_ptr<RecordSource> delimited_source(const std::string& path, CsvDialect dialect);

/// Each line that is not blank, as the field `text`.
std::unique_ptr<RecordSource> lines_source(const std::string& path);

/// The records of each in turn; at least one, all of one kind.
std::unique_ptr<RecordSource> chained_source(std::vector<std::unique_ptr<RecordSource>> sources);

}  // namespace accel
