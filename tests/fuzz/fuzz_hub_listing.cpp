// Any bytes taken for a hub's listing are read or refused, and lead nowhere but into a folder.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "runner/fetch/sources.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const accel::HubListing listing = accel::read_hub_listing({"org/name"}, text);
    if (listing.commit.find_first_not_of("0123456789abcdef") != std::string::npos) std::abort();
    for (const accel::HubFile& file : listing.files) {
      const bool leads_out = file.name.find('/') != std::string::npos || file.name[0] == '.';
      if (leads_out || file.etag.find('/') != std::string::npos || file.size < 0) std::abort();
    }
  } catch (const accel::DataError&) {
  }
  try {
    accel::parse_hub_name(text);
  } catch (const accel::Error&) {
  }
  return 0;
}
