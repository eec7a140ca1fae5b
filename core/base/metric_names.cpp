#include "core/base/metric_names.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace accel {
namespace {

constexpr std::string_view kNode = "torch::autograd::CppNode<";

/// Offset after the bracket that closes the one before `begin`; npos: none.
size_t end_of_argument(const std::string& name, size_t begin) {
  int depth = 1;
  for (size_t at = begin; at < name.size(); ++at) {
    if (name[at] == '<') ++depth;
    if (name[at] == '>' && --depth == 0) return at + 1;
  }
  return name.npos;
}

/// "MaxPool2d" of "accel::(anonymous namespace)::MaxPool2d".
std::string without_namespaces(const std::string& type) {
  const size_t last = type.rfind("::", type.find('<'));
  return last == type.npos ? type : type.substr(last + 2);
}

}  // namespace

bool lower_is_better(const std::string& metric) {
  const std::string name = metric.substr(metric.rfind('/') + 1);
  const auto ends = {"loss", "perplexity", "mae", "mse", "rmse", "error"};
  return std::any_of(ends.begin(), ends.end(),
                     [&](const char* end) { return name.ends_with(end); });
}

std::string metric_title(const std::string& metric) {
  static constexpr std::array<std::pair<const char*, const char*>, 7> kTitles = {{
      {"train/loss", "Training loss"},
      {"train/lr", "Learning rate"},
      {"train/grad_norm", "Gradient norm"},
      {"train/samples_per_second", "Samples per second"},
      {"train/tokens_per_second", "Tokens per second"},
      {"memory_mib", "Memory, MiB"},
      {"system/memory_mib", "System memory, MiB"},
  }};
  for (const auto& [name, title] : kTitles) {
    if (metric == name) return title;
  }
  for (const auto& [group, title] : {std::pair{"eval/", "Eval "}, std::pair{"train/", "Training "},
                                     std::pair{"system/", "System "}}) {
    if (!metric.starts_with(group)) continue;
    std::string words = metric.substr(std::string_view(group).size());
    std::replace(words.begin(), words.end(), '_', ' ');
    return title + words;
  }
  return metric;
}

std::string readable_operator(const std::string& name) {
  const size_t node = name.find(kNode);
  if (node == name.npos) return name;
  const size_t begin = node + kNode.size(), end = end_of_argument(name, begin);
  if (end == name.npos) return name;
  return name.substr(0, node) + without_namespaces(name.substr(begin, end - 1 - begin)) +
         "Backward" + name.substr(end);
}

}  // namespace accel
