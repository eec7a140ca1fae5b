#include "train/optim/layer_decay.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "core/base/error.h"

namespace accel {
namespace {

/// "transformer.h.0" of "transformer.h.0.ln_1.weight"; "" when the name has no number.
std::string layer_of(const std::string& name) {
  size_t begin = 0;
  while (begin < name.size()) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    const auto at = [&](size_t i) { return name.begin() + static_cast<std::ptrdiff_t>(i); };
    if (end > begin && std::all_of(at(begin), at(end), is_digit)) return name.substr(0, end);
    begin = end + 1;
  }
  return {};
}

}  // namespace

LayerRates::LayerRates(const std::vector<Parameter>& parameters, double decay) : decay_(decay) {
  if (decay == 1 || parameters.empty()) return;
  std::set<std::string> all;
  for (const Parameter& item : parameters) all.insert(layer_of(item.name));
  all.erase("");
  if (all.empty()) {
    throw Error(ExitCode::kRecipe,
                "'layer_decay' finds no layers: no parameter's name has a number, as "
                "'h.0.mlp.weight' has",
                "leave it out, or give 'groups' learning rates of their own");
  }
  std::set<std::string> below;
  const size_t top = all.size() + 1;
  for (const Parameter& item : parameters) {
    const std::string layer = layer_of(item.name);
    if (!layer.empty()) below.insert(layer);
    const bool above_all = layer.empty() && below.size() == all.size();
    distance_[item.name] = top - (above_all ? top : below.size());
  }
}

std::vector<RatedParameters> LayerRates::split(const std::vector<Parameter>& group) const {
  if (distance_.empty()) return {{group, 1}};
  std::map<size_t, std::vector<Parameter>, std::greater<>> parts;
  for (const Parameter& item : group) parts[distance_.at(item.name)].push_back(item);
  std::vector<RatedParameters> out;
  for (auto& [distance, members] : parts) {
    out.push_back({std::move(members), std::pow(decay_, static_cast<double>(distance))});
  }
  return out;
}

}  // namespace accel
