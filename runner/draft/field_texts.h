// Texts of chosen fields of JSON rows, tables and columns, for the training of tokenizers.
#pragma once

#include <string>
#include <vector>

namespace accel {

/// Appends the texts under the keys `fields` of JSON rows (.json, .jsonl), at any depth and also in
/// lists, or of these columns of a table with a header (.csv, .tsv), of a file (.parquet, .arrow)
/// or of CoNLL text, by number. Throws DataError for other extensions and a field that no row has.
void append_field_texts(const std::string& path, const std::vector<std::string>& fields,
                        std::vector<std::string>& texts);

}  // namespace accel
