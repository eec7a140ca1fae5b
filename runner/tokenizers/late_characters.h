// Characters that are newer than the tables the Python package tokenizers was made with.
#pragma once

#include <cstdint>

namespace accel {

/// Whether the package knows no category of the character where BERT's steps ask for one.
bool is_late_category(uint32_t code);

/// Whether the package does not know the character as a mark where it strips accents.
bool is_late_mark(uint32_t code);

/// Whether the package leaves the character as it is in NFKC and NFKD.
bool is_late_compatibility(uint32_t code);

}  // namespace accel
