// The files of a dataset at a URL: one object, numbered objects, or a listing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/store/streamed_objects.h"

namespace accel {

/// Chooses among the names of a listing, which are sorted.
using ChooseFiles = std::function<std::vector<std::string>(std::vector<std::string> names)>;

/// The object `url` if it ends with `extension`, or those of a range of numbers in braces, as
/// "a-{00..17}.tar" in WebDataset's notation; else the objects with the extension directly in the
/// S3 prefix, of which `choose` takes some. Says what is streamed. Throws DataError.
std::shared_ptr<StreamedObjects> stream_files(const std::string& url, const std::string& extension,
                                              const StreamingSection& options,
                                              const ChooseFiles& choose = {});

}  // namespace accel
