// Blocks of an exported graph, and their recomputation.
#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <utility>

#include "models/layers/activation_checkpoint.h"
#include "models/program/aten_graph.h"

namespace accel {
namespace {

using c10::IValue;

/// The list item that contains a module: "h.0" for "h.0.attn.proj"; empty for modules outside of
/// lists.
std::string layer_in(const std::string& module) {
  size_t begin = 0;
  while (begin < module.size()) {
    const size_t end = std::min(module.find('.', begin), module.size());
    const bool number = std::all_of(module.begin() + static_cast<std::ptrdiff_t>(begin),
                                    module.begin() + static_cast<std::ptrdiff_t>(end), [](char c) {
                                      return std::isdigit(static_cast<unsigned char>(c)) != 0;
                                    });
    if (number && begin > 0) return module.substr(0, end);
    begin = end + 1;
  }
  return {};
}

void add_results(const Pt2Argument& result, std::set<size_t>& out) {
  if (const auto* slot = result.as<Pt2Slot>()) out.insert(slot->index);
  if (const auto* list = result.as<Pt2Argument::List>()) {
    for (const Pt2Argument& item : *list) add_results(item, out);
  }
}

/// Whether the value is a tensor that other operators computed from trained parameters.
bool is_computed(const IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().grad_fn() != nullptr;
}

}  // namespace

std::vector<std::shared_ptr<ProgramBlock>> AtenGraph::find_blocks() {
  std::vector<std::shared_ptr<ProgramBlock>> out;
  for (size_t begin = 0, end = 0; begin < lines_.size(); begin = end) {
    const std::string layer = layer_in(lines_[begin].module);
    for (end = begin + 1; end < lines_.size(); ++end) {
      if (layer_in(lines_[end].module) != layer) break;
    }
    // A single call saves only its inputs and outputs.
    if (layer.empty() || end - begin < 2 || !is_pure(begin, end)) continue;
    regions_.push_back(region_of(begin, end));
    out.push_back(regions_.back().block);
  }
  return out;
}

bool AtenGraph::is_pure(size_t begin, size_t end) const {
  std::set<size_t> made;
  for (size_t i = begin; i < end; ++i) {
    const auto is_made = [&](size_t slot) { return made.contains(slot); };
    if (!std::all_of(lines_[i].written.begin(), lines_[i].written.end(), is_made)) return false;
    for (const Pt2Argument& result : lines_[i].results) add_results(result, made);
  }
  return true;
}

AtenGraph::Region AtenGraph::region_of(size_t begin, size_t end) const {
  std::set<size_t> made, taken, later;
  std::vector<size_t> slots;
  const auto slots_in = [&slots](const std::vector<AtenOperand>& operands) {
    slots.clear();
    for (const AtenOperand& operand : operands) operand.add_slots(slots);
  };
  for (size_t i = begin; i < end; ++i) {
    slots_in(lines_[i].operands);
    for (const size_t slot : slots) {
      if (!made.contains(slot)) taken.insert(slot);
    }
    for (const Pt2Argument& result : lines_[i].results) add_results(result, made);
  }
  for (size_t i = end; i < lines_.size(); ++i) {
    slots_in(lines_[i].operands);
    later.insert(slots.begin(), slots.end());
  }
  slots_in(outputs_);
  later.insert(slots.begin(), slots.end());
  Region region = {begin, end, {}, {}, std::make_shared<ProgramBlock>()};
  for (const size_t slot : taken) region.inputs.emplace_back(slot, !later.contains(slot));
  for (const size_t slot : made) {
    if (later.contains(slot)) region.outputs.push_back(slot);
  }
  return region;
}

void AtenGraph::run_region(const Region& region, ValueTable& table) const {
  // One at a time may be stored: the first is that of the residual stream.
  BlockInputs* storage = region.block->inputs();
  std::vector<std::function<IValue()>> given;
  for (const auto& [slot, is_last] : region.inputs) {
    IValue value = is_last ? std::move(table[slot]) : table[slot];
    if (storage && is_last && is_computed(value)) {
      given.push_back(std::exchange(storage, nullptr)->store(value.toTensor()));
    } else {
      given.push_back([value = std::move(value)] { return value; });
    }
  }
  const auto made = std::make_shared<std::vector<IValue>>();
  // Expired in the recomputation, whose results exist already.
  const std::weak_ptr<std::vector<IValue>> wanted = made;
  const auto compute = [this, &region, given = std::move(given), wanted, device = table.back()] {
    ValueTable own(slots_ + 1);
    own.back() = device;
    for (size_t i = 0; i < given.size(); ++i) own[region.inputs[i].first] = given[i]();
    run_lines(region.begin, region.end, own);
    if (const auto out = wanted.lock()) {
      for (const size_t slot : region.outputs) out->push_back(own[slot]);
    }
    return at::Tensor();
  };
  checkpoint(compute, region.block->checkpointing());
  for (size_t i = 0; i < made->size(); ++i) table[region.outputs[i]] = std::move((*made)[i]);
}

}  // namespace accel
