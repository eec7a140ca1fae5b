// Limit of a text's growth in the steps of a tokenizer.json: files come from strangers.
#pragma once

#include <cstddef>
#include <string>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "text/json_node.h"

namespace accel {

/// As long as the longest rendered chat; real steps make a text at most 18 times as long (NFKD).
constexpr size_t kMaxGrownText = size_t{4} << 20;
constexpr size_t kMaxGrowth = 64;

/// The most bytes that a text of `bytes` may become.
constexpr size_t grown_limit(size_t bytes) {
  return kMaxGrownText + kMaxGrowth * bytes;
}

/// A step of a tokenizer.json, for messages.
struct StepName {
  explicit StepName(const JsonNode& node) : path(node.path()), type(node.type()) {}

  /// Throws FormatError if a text of `bytes` is longer than `limit`.
  void check(size_t bytes, size_t limit) const {
    if (bytes <= limit) return;
    throw FormatError(text("'{}' of the type {} makes a text longer than {} bytes, the limit here",
                           path, type, limit));
  }

  std::string path;
  std::string type;
};

}  // namespace accel
