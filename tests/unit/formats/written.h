// Output of writers and files in memory, for tests of byte formats.
#pragma once

#include <memory>
#include <string>

#include "core/base/bytes.h"
#include "core/base/mapped_file.h"

namespace accel {

/// The bytes that `write` passes to its sink.
template <class Write>
std::string written(Write write) {
  std::string out;
  write(ByteSink([&out](ByteSpan bytes) { out += as_text(bytes); }));
  return out;
}

/// A file in memory.
inline SharedBytes file_of(std::string text) {
  const auto owner = std::make_shared<std::string>(std::move(text));
  return {as_bytes(*owner), owner};
}

/// The message of the FormatError that `act` throws, "" without one.
template <class Act>
std::string format_fault(Act act) {
  try {
    act();
    return "";
  } catch (const FormatError& error) {
    return error.what();
  }
}

}  // namespace accel
