// What a test's own files are refused with.
#pragma once

#include <string>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel {

/// What `make` throws, without the first mention of the folder; "" when it throws nothing.
template <class Make>
std::string refusal_in(const TempFolder& folder, const Make& make) {
  try {
    make();
  } catch (const Error& error) {
    std::string text = error.what();
    const size_t at = text.find(folder.path());
    return at == std::string::npos ? text : text.erase(at, folder.path().size() + 1);
  }
  return "";
}

}  // namespace accel
