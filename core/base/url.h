// URLs in messages: without the credentials in them.
#pragma once

#include <string>

namespace accel {

/// "https://a.b:8" of a URL; "" when it is none.
std::string origin_of_url(const std::string& url);

/// The URL for messages: without user name, password and query, which may be a signature.
std::string printable_url(const std::string& url);

/// The text with the user name and password of each URL in it replaced by "***". Whatever is
/// printed or logged passes through it.
std::string without_passwords(const std::string& text);

}  // namespace accel
