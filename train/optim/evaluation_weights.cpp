#include "train/optim/evaluation_weights.h"

#include <map>
#include <string>

namespace accel {

void put_evaluation_weights(const Optimizer& optimizer, std::vector<Parameter>& parameters) {
  const auto* averaged = dynamic_cast<const EvaluationWeights*>(&optimizer);
  if (!averaged) return;
  std::map<std::string, at::Tensor> weights;
  for (Parameter& item : averaged->evaluation_weights()) weights[item.name] = item.local;
  for (Parameter& item : parameters) {
    if (const auto found = weights.find(item.name); found != weights.end()) {
      item.local = found->second;
    }
  }
}

}  // namespace accel
