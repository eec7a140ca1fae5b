// Class names of Hugging Face datasets, in the metadata of a schema.
#pragma once

#include <arrow/type.h>

#include <string>
#include <vector>

namespace accel {

/// Class names of a field of ClassLabel or, `in_lists`, of lists of it; empty for other fields.
std::vector<std::string> names_of_classes(const arrow::Schema& schema, const std::string& field,
                                          bool in_lists);

}  // namespace accel
