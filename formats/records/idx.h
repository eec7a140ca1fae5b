// IDX, the format of MNIST: a magic number, big-endian sizes, values.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/base/array.h"
#include "core/base/mapped_file.h"

namespace accel {

/// Reads an IDX file, mapped or gzip-compressed. Types: u8, i8, i16, i32, f32, f64; at most 8
/// dimensions. Throws DataError when the header does not match the file's size.
Array read_idx(const std::string& path);

/// As read_idx, from memory; `name` is for messages.
Array parse_idx(const SharedBytes& file, const std::string& name);

}  // namespace accel
