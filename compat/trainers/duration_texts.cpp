#include "compat/trainers/duration_texts.h"

#include <cmath>

#include "core/recipe/number_text.h"
#include "core/recipe/units.h"

namespace accel {

std::string steps_text(double steps) {
  return to_string(Duration{steps, Duration::Unit::kSteps});
}

std::string epochs_text(double count) {
  return to_string(Duration{count, Duration::Unit::kEpochs});
}

std::string interval_text(double value) {
  if (value > 0 && value < 1) return show_number(value * 100) + '%';
  return steps_text(std::floor(value));
}

}  // namespace accel
