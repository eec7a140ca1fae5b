#include "runner/track/config_value.h"

#include <charconv>
#include <cmath>

#include "core/json_text.h"

namespace accel {

ConfigValue config_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && std::isfinite(number)) return number;
  return text;
}

std::string python_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return json_number(value);
}

std::string config_json(const std::string& text) {
  const ConfigValue value = config_value(text);
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const double* number = std::get_if<double>(&value)) return json_number(*number);
  return json_text(text);
}

}  // namespace accel
