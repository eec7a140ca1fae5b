// Parsers of the two recipe syntaxes, YAML and TOML, and their common limits.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "core/recipe/node.h"

namespace accel {

constexpr size_t kMaxRecipeBytes = 256 * 1024;
constexpr int kMaxDepth = 64;         ///< of nested sections and lists
constexpr size_t kMaxNodes = 10'000;  ///< values and sections, after alias expansion
constexpr size_t kMaxExpandedBytes =
    4 * kMaxRecipeBytes;  ///< texts and keys, after alias expansion

/// Checks size, encoding and control characters. False: reported.
bool check_text(const std::shared_ptr<const Source>& source, Diagnostics& problems);

/// Reads the source's text from byte `begin` of its first line on. What is wrong goes to
/// `problems`.
Node parse_yaml(const std::shared_ptr<const Source>& source, size_t begin, Diagnostics& problems);
Node parse_toml(const std::shared_ptr<const Source>& source, Diagnostics& problems);

/// "a recipe may hold 10000 values, and this one holds more"
void report_too_many(const Span& where, Diagnostics& problems);
void report_too_deep(const Span& where, Diagnostics& problems);
/// "a key must be a text, not empty"
void report_empty_key(const Span& where, Diagnostics& problems);
/// Names the line of the first one.
void report_duplicate(const std::string& key, const Span& where, const Span& first,
                      Diagnostics& problems);

}  // namespace accel
