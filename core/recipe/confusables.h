// Confusable characters: look-alikes of the recipe grammar's characters, pasted from word
// processors and web pages.
#pragma once

#include <string>

#include "core/recipe/source.h"

namespace accel {

/// For a problem at `where`: if the value or key there has such a character, a `hint` that names it
/// and its column replaces "did you mean ...?" or none. Of an argument the whole text is searched.
void explain_odd_characters(const Span& where, std::string& hint);

/// The same for a text that cannot be parsed: the line at `where` and the one before are searched,
/// without comments and quotes. Replaces any hint.
void explain_odd_layout(const Span& where, std::string& hint);

}  // namespace accel
