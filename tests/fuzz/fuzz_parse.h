// What a parser must keep for any bytes: a tree that writes and reads back the same, or an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/node.h"

namespace accel {

/// Parses the bytes as `path`; stops the fuzzer when what is written does not read back equal.
inline void fuzz_parse(const std::string& path, const uint8_t* data, size_t size) {
  std::string written;
  try {
    written = to_yaml(parse_recipe(path, {reinterpret_cast<const char*>(data), size}));
  } catch (const RecipeError& error) {
    for (const Diagnostic& d : error.diagnostics()) render_json(d);
    return;
  }
  try {
    if (to_yaml(parse_recipe("again.yaml", written)) != written) std::abort();
  } catch (const RecipeError&) {
    // Block layout may pass the size limit where the input did not.
    constexpr size_t kRoom = 16 * 1024;
    if (written.size() < kRoom) std::abort();
  }
}

}  // namespace accel
