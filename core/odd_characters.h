// Characters that look like those of the recipe's grammar and are others: from word processors,
// web pages and keyboards of other scripts.
#pragma once

#include <string>

#include "core/diagnostic.h"

namespace accel {

/// Where the value or key at the problem's place has such a character, a hint that names it and its
/// column takes the place of "did you mean ...?" or of none. Of an argument all of it is looked at.
void explain_odd_characters(Diagnostic& diagnostic);

/// The same for a text that cannot be parsed, of which the line at the problem's place and the one
/// before are looked at, comments and quotes left out. Takes the place of any hint.
void explain_odd_layout(Diagnostic& diagnostic);

}  // namespace accel
