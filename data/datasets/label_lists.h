// Fields with several labels or numbers, for multi-label classification and regression.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accel {

/// The labels of a field: the strings and integers of a JSON list or of Python's repr() of one, or
/// else the texts between commas, without surrounding spaces. None for a list of other values, or
/// with a label twice, as one that has a 0 or 1 for each label.
std::optional<std::vector<std::string>> labels_in(std::string_view field);

/// The numbers of a JSON list, or one number. None for other values.
std::optional<std::vector<float>> numbers_in(std::string_view field);

/// 0 or 1, as a number or as false and true; none for other values.
std::optional<float> label_flag(std::string_view field);

}  // namespace accel
