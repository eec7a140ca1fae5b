// What reports look like: on a wide screen, on a phone, on paper, by day and by night.
#pragma once

#include <string>

namespace accel {

/// A whole HTML document around `body`, with its style inside. It forbids itself to load or run
/// anything.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace accel
