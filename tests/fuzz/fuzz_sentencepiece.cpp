// Any bytes taken for a .model file are read or refused; what is read encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/format_error.h"
#include "core/base/utf8.h"
#include "tests/fuzz/memory_watch.h"
#include "text/sentencepiece.h"

namespace {

constexpr std::string_view kTexts[] = {
    "", " Hello  world's 123 \n\t x", "e\xcc\x81\xef\xac\x81 \xe4\xbd\xa0\xf0\x9f\x98\x80 \xff<s>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const accel::MemoryWatch watch(256 * size);
    const accel::SentencePiece tokenizer(bytes);
    for (const std::string_view text : kTexts) {
      const auto ids = tokenizer.encode(text, true);
      if (!accel::is_utf8(tokenizer.decode(ids, true))) __builtin_trap();
    }
  } catch (const accel::FormatError&) {
  }
  return 0;
}
