// Parsing of scalars by the type of their option: the same rules for YAML, TOML and the command
// line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/recipe/node.h"
#include "core/recipe/units.h"

namespace accel {

/// A parsed value, or the hint for an invalid one.
template <class T>
struct Parsed {
  std::optional<T> value;
  std::string hint;  ///< what to write instead, if known
};

/// `5`, `1_000`, `1e3` when exact. Not `010`, `5.0`, quoted text or anything beyond 64 bits.
Parsed<int64_t> parse_integer(const Scalar& scalar);

/// `0.1`, `1e-3`, `1_000`, `.5`. Not nan or inf, nor a value that a double cannot hold.
Parsed<double> parse_number(const Scalar& scalar);

/// `true` or `false`. `yes`, `on` and their like are refused with a hint.
Parsed<bool> parse_switch(const Scalar& scalar);

/// `500 steps`, `3 epochs`, `2M tokens`, `90 min`, `1.5 h`, `5%`; a bare integer means steps.
Parsed<Duration> parse_duration(const Scalar& scalar);

/// `4096`, `10 MB` (decimal), `4 GiB` (binary).
Parsed<ByteSize> parse_byte_size(const Scalar& scalar);

}  // namespace accel
