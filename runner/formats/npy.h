// NumPy's .npy, versions 1 to 3: a header in Python's literal syntax, then values.
#pragma once

#include <string>

#include "core/array.h"
#include "runner/formats/mapped_file.h"

namespace accel {

/// Reads a .npy file, mapped where its layout allows it. Types: bool, integers of 8 to 64 bits,
/// floats of 16 to 64 bits, either byte order. Throws DataError for objects, texts, records,
/// Fortran order, headers above 4 KiB, and sizes that the file does not hold.
Array read_npy(const std::string& path);

/// As read_npy, of bytes in memory; `name` is for messages.
Array parse_npy(const SharedBytes& file, const std::string& name);

}  // namespace accel
