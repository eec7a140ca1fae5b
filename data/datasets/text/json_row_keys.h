// Hashes of a field of JSON rows, by which samples are kept together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// A hash of the value of `field` in each row of a file, or in the rows of the numbers `kept`, in
/// ascending order. Throws DataError for a row among them without the field.
std::vector<uint64_t> json_row_keys(const std::string& path, const std::string& field,
                                    const std::vector<int64_t>* kept = nullptr);

}  // namespace accel
