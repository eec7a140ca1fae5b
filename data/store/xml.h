// Elements of the XML that S3 and STS answer with.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accel {

/// The text of the first element `name`, with its entities replaced; none without it.
std::optional<std::string> xml_element(std::string_view xml, const std::string& name);

}  // namespace accel
