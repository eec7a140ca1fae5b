// Tensors of a TrainState in kStateFile.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/file_names.h"
#include "checkpoint/train_state.h"

namespace accel {

/// Each state dict with the prefix of its tensor names in kStateFile. The one list for writing,
/// reading and counting.
template <class State>
auto sections_of(State& state) {
  std::vector<std::pair<std::string, decltype(&state.schedule)>> out;
  out.emplace_back("schedule/", &state.schedule);
  if (state.scaler) out.emplace_back("scaler/", &*state.scaler);
  for (auto& [name, section] : state.sections) out.emplace_back("parts/" + name + "/", &section);
  return out;
}

}  // namespace accel
