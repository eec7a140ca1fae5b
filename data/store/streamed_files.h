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

/// "a-3.tar", "a-4.tar" for "a-{3..4}.tar", WebDataset's notation; numbers keep their leading
/// zeros. `extension` is for the message of the DataError for other braces.
std::vector<std::string> expanded_names(const std::string& name, const std::string& extension);

/// The object `url` if it ends with `extension`, or those of a range of numbers in braces, as
/// "a-{00..17}.tar" in WebDataset's notation; else the objects with the extension directly in the
/// S3 prefix or folder of the hub, of which `choose` takes some. Says what is streamed. Throws
/// DataError.
std::shared_ptr<StreamedObjects> stream_files(const std::string& url, const std::string& extension,
                                              const StreamingSection& options,
                                              const ChooseFiles& choose = {});

}  // namespace accel
