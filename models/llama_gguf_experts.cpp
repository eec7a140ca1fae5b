#include "models/llama_gguf_experts.h"

#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace accel {
namespace {

struct StackedPlace {
  std::string name;  ///< without the expert's number
  size_t expert;
};

std::optional<StackedPlace> stacked_place(const std::string& name) {
  constexpr std::string_view kList = ".experts.";
  const size_t list = name.find(kList);
  if (list == name.npos) return std::nullopt;
  const size_t number = list + kList.size(), dot = name.find('.', number);
  return StackedPlace{name.substr(0, number) + name.substr(dot + 1),
                      std::stoul(name.substr(number, dot - number))};
}

TensorSource stack_of(const std::string& name, const std::map<size_t, TensorSource>& experts) {
  const TensorSource& first = experts.begin()->second;
  for (const auto& [number, expert] : experts) {
    const bool fits = expert.shape == first.shape && expert.type == first.type;
    if (!fits || experts.rbegin()->first + 1 != experts.size()) {
      throw std::invalid_argument("experts that cannot be stacked: " + name);
    }
  }
  TensorSource out{name, first.type, first.shape, {}};
  out.shape.insert(out.shape.begin(), static_cast<int64_t>(experts.size()));
  out.read = [experts, shape = out.shape, type = out.type] {
    Array array(type, shape);
    const size_t bytes = array.bytes() / experts.size();
    for (const auto& [number, expert] : experts) {
      std::memcpy(array.mutable_data() + number * bytes, expert.read().data(), bytes);
    }
    return array;
  };
  return out;
}

}  // namespace

std::vector<TensorSource> stacked_experts(const std::vector<TensorSource>& weights) {
  std::map<std::string, std::map<size_t, TensorSource>> stacks;
  for (const TensorSource& weight : weights) {
    if (const auto place = stacked_place(weight.name)) stacks[place->name][place->expert] = weight;
  }
  std::vector<TensorSource> out;
  for (const TensorSource& weight : weights) {
    const auto place = stacked_place(weight.name);
    if (!place) {
      out.push_back(weight);
    } else if (const auto stack = stacks.find(place->name); stack != stacks.end()) {
      out.push_back(stack_of(stack->first, stack->second));
      stacks.erase(stack);
    }
  }
  return out;
}

}  // namespace accel
