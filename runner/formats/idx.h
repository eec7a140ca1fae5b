// IDX, the format of MNIST and its relatives: a magic number, big-endian sizes, values.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/array.h"
#include "runner/formats/mapped_file.h"

namespace accel {

/// Reads an IDX file, plain (kept as a map) or gzip. Types: u8, i8, i16, i32, f32, f64; at most 8
/// dimensions. Throws DataError when the sizes in the header and the file's do not agree.
Array read_idx(const std::string& path);

/// As read_idx, of bytes in memory; `name` is for messages.
Array parse_idx(const SharedBytes& file, const std::string& name);

}  // namespace accel
