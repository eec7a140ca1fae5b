// Reader of NumPy .npy files, versions 1 to 3.
#pragma once

#include <string>

#include "core/base/array.h"
#include "core/base/mapped_file.h"

namespace accel {

/// Reads a .npy file, as a view of the map if aligned and little-endian. Types: bool, integers of 8
/// to 64 bits, floats of 16 to 64 bits, both byte orders. Throws DataError for other types, Fortran
/// order, headers above 4 KiB, and sizes that do not match the file.
Array read_npy(const std::string& path);

/// As read_npy, from memory; `name` is for messages.
Array parse_npy(const SharedBytes& file, const std::string& name);

}  // namespace accel
