// The TOML reader against any bytes.
#include "tests/fuzz/fuzz_parse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  accel::fuzz_parse("fuzz.toml", data, size);
  return 0;
}
