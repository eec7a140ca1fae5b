#include "train/tasks/completion_rows.h"

#include "core/base/json_text.h"

namespace accel {
namespace {

std::string id_list(const std::vector<int64_t>& ids) {
  std::string out;
  for (const int64_t id : ids) out += (out.empty() ? "" : ", ") + std::to_string(id);
  return "[" + out + "]";
}

}  // namespace

std::vector<std::string> completion_rows(const Rollouts& rollouts, int64_t step,
                                         const std::vector<std::string>& names) {
  const at::Tensor advantages = rollouts.advantages.to(at::kCPU, at::kDouble).contiguous();
  const auto* const rewards = rollouts.rewards.const_data_ptr<double>();
  const size_t group = rollouts.texts.size() / rollouts.prompts.size();
  std::vector<std::string> out;
  for (size_t i = 0; i < rollouts.texts.size(); ++i) {
    std::string by_name;
    for (size_t k = 0; k < names.size(); ++k) {
      by_name += (k == 0 ? "" : ", ") + json_text(names[k]) + ": " +
                 json_number(rewards[i * names.size() + k]);
    }
    const bool truncated = rollouts.truncated.const_data_ptr<double>()[i] > 0;
    out.push_back("{\"step\": " + std::to_string(step) +
                  ", \"prompt\": " + json_text(rollouts.prompts[i / group]) + ", \"completion\": " +
                  json_text(rollouts.texts[i]) + ", \"rewards\": {" + by_name +
                  "}, \"advantage\": " + json_number(advantages.const_data_ptr<double>()[i]) +
                  ", \"truncated\": " + (truncated ? "true" : "false") +
                  ", \"prompt_ids\": " + id_list(rollouts.prompt_ids[i]) +
                  ", \"completion_ids\": " + id_list(rollouts.completion_ids[i]) + "}");
  }
  return out;
}

}  // namespace accel
