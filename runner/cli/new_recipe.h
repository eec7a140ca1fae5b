// A first recipe for data somebody has.
#pragma once

#include <string>

namespace accel {

/// A complete, commented recipe (YAML) for what lies at `path`: a table (.csv, .tsv), images in
/// class folders or in a .tar, IDX files, a plain text, or a folder with one of them. A test or
/// validation part beside it becomes the eval set. Empty: the built-in drawn digits.
///
/// Throws DataError when nothing is there, or nothing that is known.
std::string sniff_recipe(const std::string& path);

}  // namespace accel
