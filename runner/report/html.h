// Text as HTML and SVG hold it.
#pragma once

#include <string>
#include <string_view>

namespace accel {

/// Escaped for text and for quoted attributes, valid UTF-8, without the control characters that
/// XML forbids: names and values come from files that anybody may have written.
std::string html_text(std::string_view text);

/// "<name>" around text that is escaped.
std::string html_element(const std::string& name, std::string_view text);

/// A number for a person: whole, or of at most `digits` digits, such as "0.01235", "1.5e-07" or
/// "12,345".
std::string number_words(double value, int digits = 4);

/// A number for a drawing: one decimal at most.
std::string coordinate(double value);

/// "1:02:03", "4:05" or "0.8 s".
std::string duration_words(double seconds);

}  // namespace accel
