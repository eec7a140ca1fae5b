// Any bytes taken for a tokenizer.json are read or refused; what is read encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "core/base/utf8.h"
#include "tests/fuzz/memory_watch.h"
#include "text/json_node.h"
#include "text/pipeline.h"

namespace {

constexpr std::string_view kTexts[] = {
    "", " Hello  world's 123 \n\t x", "e\xcc\x81\xef\xac\x81 \xe4\xbd\xa0\xf0\x9f\x98\x80 \xff<s>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"};

void use(const accel::Tokenizer& tokenizer) {
  for (const std::string_view text : kTexts) {
    try {
      const auto ids = tokenizer.encode(text);
      tokenizer.encode_pair(text, "b");
      if (!accel::is_utf8(tokenizer.decode(ids))) __builtin_trap();
    } catch (const accel::DataError&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const accel::MemoryWatch watch(64 * size);
    accel::read_json_text(
        text, [](const accel::JsonNode& place, std::string_view) { use(accel::Pipeline(place)); });
  } catch (const accel::FormatError&) {
  } catch (const accel::DataError&) {
  }
  return 0;
}
