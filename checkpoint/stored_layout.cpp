#include "checkpoint/stored_layout.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/tensors.h"

namespace accel {
namespace {

using ParameterState = OptimizerState::ParameterState;
using PartNames = std::vector<std::vector<std::string>>;

/// Adafactor's factors: those of the rows become those of the columns in a transposed tensor.
constexpr auto kRowFactor = "row_var", kColumnFactor = "col_var";

std::string slot_name(const std::string& name, bool transposed) {
  if (transposed && name == kRowFactor) return kColumnFactor;
  if (transposed && name == kColumnFactor) return kRowFactor;
  return name;
}

at::Tensor oriented(const at::Tensor& tensor, bool transposed) {
  return transposed && tensor.defined() && tensor.dim() == 2 ? tensor.t() : tensor;
}

template <class Visit>
void for_each_part(const PartNames& parts, const Visit& visit) {
  for (const std::vector<std::string>& list : parts) {
    for (const std::string& part : list) visit(part);
  }
}

/// The region of part `column` of list `row` in a stacked tensor.
at::Tensor part_of(const StoredTensor& stored, const at::Tensor& whole, size_t row, size_t column) {
  const int64_t rows = whole.size(1) / static_cast<int64_t>(stored.parts[row].size());
  return whole.select(0, static_cast<int64_t>(row))
      .narrow(0, static_cast<int64_t>(column) * rows, rows);
}

using Tensors = std::map<std::string, at::Tensor>;

at::Tensor joined_parts(const StoredTensor& stored, const Tensors& tensors) {
  const at::Tensor& like = tensors.begin()->second;
  const auto columns = static_cast<int64_t>(stored.parts.front().size());
  Shape shape = like.sizes().vec();
  shape.front() *= columns;
  shape.insert(shape.begin(), stored.shape.front());
  const at::Tensor out = at::zeros(shape, like.options().requires_grad(false));
  for (size_t row = 0; row < stored.parts.size(); ++row) {
    for (size_t column = 0; column < stored.parts[row].size(); ++column) {
      const auto found = tensors.find(stored.parts[row][column]);
      if (found != tensors.end()) part_of(stored, out, row, column).copy_(found->second.detach());
    }
  }
  return out;
}

at::Tensor largest(const Tensors& scalars) {
  return std::max_element(scalars.begin(), scalars.end(),
                          [](const auto& a, const auto& b) {
                            return a.second.item().toDouble() < b.second.item().toDouble();
                          })
      ->second;
}

/// The slots of a stacked tensor from those of its parts.
std::vector<Parameter> joined_slots(const StoredTensor& stored,
                                    const std::map<std::string, const ParameterState*>& parts) {
  std::vector<std::string> order;
  std::map<std::string, Tensors> slots;  // by slot, then by part
  for (const auto& [name, part] : parts) {
    for (const Parameter& slot : part->slots) {
      if (!slots.contains(slot.name)) order.push_back(slot.name);
      slots[slot.name][name] = slot.local;
    }
  }
  std::vector<Parameter> out;
  for (const std::string& name : order) {
    const Tensors& tensors = slots.at(name);
    const bool is_scalar = tensors.begin()->second.dim() == 0;
    out.push_back({name, is_scalar ? largest(tensors) : joined_parts(stored, tensors)});
  }
  return out;
}

std::vector<Parameter> stored_slots(const StoredTensor& stored,
                                    const std::map<std::string, const ParameterState*>& parts) {
  if (stored.stacked) return joined_slots(stored, parts);
  std::vector<Parameter> out;
  for (const Parameter& slot : parts.begin()->second->slots) {
    out.push_back(
        {slot_name(slot.name, stored.transposed), oriented(slot.local, stored.transposed)});
  }
  return out;
}

/// The states of the parts that `left` has; none unless it has all.
std::map<std::string, const ParameterState*> states_of(
    const StoredTensor& stored, const std::map<std::string, const ParameterState*>& left) {
  std::map<std::string, const ParameterState*> out;
  bool complete = true;
  for_each_part(stored.parts, [&](const std::string& part) {
    const auto found = left.find(part);
    if (found == left.end()) {
      complete = false;
    } else {
      out.insert(*found);
    }
  });
  return complete ? out : std::map<std::string, const ParameterState*>();
}

std::vector<ParameterState> stored_group(const StoredLayout& layout,
                                         const std::vector<ParameterState>& group) {
  std::map<std::string, const ParameterState*> left;
  for (const ParameterState& item : group) left[item.name] = &item;
  std::vector<ParameterState> out;
  for (const StoredTensor& stored : layout.tensors) {
    const auto parts = states_of(stored, left);
    if (parts.empty()) continue;
    out.push_back({stored.name, stored_slots(stored, parts)});
    for (const auto& [name, part] : parts) left.erase(name);
  }
  for (const ParameterState& item : group) {
    if (left.contains(item.name)) out.push_back(item);
  }
  return out;
}

std::map<std::string, const StoredTensor*> by_stored_name(const StoredLayout& layout) {
  std::map<std::string, const StoredTensor*> out;
  for (const StoredTensor& stored : layout.tensors) out[stored.name] = &stored;
  return out;
}

/// Whether `whole` is the stack of equal parts: the tensor itself, a moment or a factor of it, or
/// of a vector of each part, such as the scales of quantized moments.
bool is_stack(const StoredTensor& stored, const at::Tensor& whole) {
  if (!stored.stacked || !whole.defined() || whole.dim() < 2) return false;
  const auto columns = static_cast<int64_t>(stored.parts.front().size());
  if (whole.dim() == 2) {
    return whole.size(0) == stored.shape[0] && whole.size(1) % columns == 0;
  }
  if (whole.dim() != 3) return false;
  const bool has_rows = whole.size(1) == stored.shape[1] || whole.size(1) == columns;
  const bool has_columns = whole.size(2) == stored.shape[2] || whole.size(2) == 1;
  return whole.size(0) == stored.shape[0] && has_rows && has_columns;
}

/// A tensor of the module as the model's tensors. One of another shape is left whole, under the
/// name of the first part, so that loading it names the shapes.
template <class Add>
void split(const StoredTensor& stored, const at::Tensor& whole, const Add& add) {
  if (!is_stack(stored, whole)) {
    return add(stored.parts.front().front(), oriented(whole, stored.transposed));
  }
  for (size_t row = 0; row < stored.parts.size(); ++row) {
    for (size_t column = 0; column < stored.parts[row].size(); ++column) {
      add(stored.parts[row][column], part_of(stored, whole, row, column));
    }
  }
}

std::vector<ParameterState> own_states(const StoredTensor& stored, const ParameterState& state) {
  std::vector<ParameterState> out;
  std::map<std::string, size_t> places;
  for_each_part(stored.parts, [&](const std::string& part) {
    places[part] = out.size();
    out.push_back({part, {}});
  });
  for (const Parameter& slot : state.slots) {
    const std::string name = slot_name(slot.name, stored.transposed);
    if (stored.stacked && slot.local.defined() && slot.local.dim() == 0) {
      for (ParameterState& part : out) part.slots.push_back({name, slot.local});
      continue;
    }
    split(stored, slot.local, [&](const std::string& part, const at::Tensor& tensor) {
      out[places.at(part)].slots.push_back({name, tensor});
    });
  }
  return out;
}

/// Sorts items by the place of their names in `names`; others keep their order, at the end.
template <class Item>
void sort_by_name(const std::vector<std::string>& names, std::vector<Item>& items) {
  std::map<std::string, size_t> places;
  for (const std::string& name : names) places.emplace(name, places.size());
  const auto place = [&](const Item& item) {
    const auto found = places.find(item.name);
    return found == places.end() ? names.size() : found->second;
  };
  std::stable_sort(items.begin(), items.end(),
                   [&](const Item& a, const Item& b) { return place(a) < place(b); });
}

bool keeps_form(const StoredTensor& stored) {
  return !stored.stacked && !stored.transposed && stored.name == stored.parts.front().front();
}

}  // namespace

void to_stored(const StoredLayout& layout, TrainState& state) {
  std::map<std::string, at::Tensor> left;
  for (const Parameter& item : state.model) left[item.name] = item.local;
  std::vector<Parameter> model;
  for (const StoredTensor& stored : layout.tensors) {
    Tensors parts;
    for_each_part(stored.parts, [&](const std::string& part) {
      if (const auto found = left.find(part); found != left.end()) {
        parts.insert(left.extract(found));
      }
    });
    if (parts.empty()) continue;
    model.push_back({stored.name, stored.stacked
                                      ? joined_parts(stored, parts)
                                      : oriented(parts.begin()->second, stored.transposed)});
  }
  for (const Parameter& item : state.model) {
    if (left.contains(item.name)) model.push_back(item);
  }
  state.model = std::move(model);
  for (OptimizerState::Group& group : state.optimizer.groups) {
    group.parameters = stored_group(layout, group.parameters);
  }
}

void from_stored(const StoredLayout& layout, TrainState& state) {
  const auto known = by_stored_name(layout);
  std::vector<Parameter> model;
  for (const Parameter& item : state.model) {
    const auto found = known.find(item.name);
    if (found == known.end()) {
      model.push_back(item);
      continue;
    }
    split(*found->second, item.local, [&](const std::string& name, const at::Tensor& tensor) {
      model.push_back({name, tensor});
    });
  }
  sort_by_name(layout.names, model);
  state.model = std::move(model);
  for (OptimizerState::Group& group : state.optimizer.groups) {
    std::vector<ParameterState> parameters;
    for (const ParameterState& item : group.parameters) {
      const auto found = known.find(item.name);
      if (found == known.end()) {
        parameters.push_back(item);
        continue;
      }
      const std::vector<ParameterState> own = own_states(*found->second, item);
      parameters.insert(parameters.end(), own.begin(), own.end());
    }
    sort_by_name(layout.names, parameters);
    group.parameters = std::move(parameters);
  }
}

std::vector<NamedArray> own_arrays(const StoredLayout& layout,
                                   const std::vector<NamedArray>& stored) {
  TrainState state;
  for (const auto& [name, array] : stored) state.model.push_back({name, tensor_of(array)});
  from_stored(layout, state);
  std::vector<NamedArray> out;
  for (const Parameter& item : state.model) {
    out.push_back({item.name, array_of(item.local, item.name)});
  }
  return out;
}

std::vector<std::vector<std::string>> stored_groups(
    const StoredLayout& layout, const std::vector<std::vector<std::string>>& groups) {
  std::vector<std::vector<std::string>> out;
  for (const std::vector<std::string>& group : groups) {
    std::vector<ParameterState> states;
    for (const std::string& name : group) states.push_back({name, {}});
    std::vector<std::string>& names = out.emplace_back();
    for (const ParameterState& item : stored_group(layout, states)) names.push_back(item.name);
  }
  return out;
}

bool is_stored_as(const StoredLayout& layout, const std::vector<Parameter>& model) {
  std::map<std::string, at::IntArrayRef> shapes;
  for (const Parameter& item : model) shapes.emplace(item.name, item.local.sizes());
  return std::all_of(layout.tensors.begin(), layout.tensors.end(), [&](const StoredTensor& stored) {
    if (keeps_form(stored)) return true;
    const auto found = shapes.find(stored.name);
    return found != shapes.end() && found->second == at::IntArrayRef(stored.shape);
  });
}

bool only_reorders(const StoredLayout& layout) {
  return std::all_of(layout.tensors.begin(), layout.tensors.end(), &keeps_form);
}

bool is_identity(const StoredLayout& layout) {
  return only_reorders(layout) &&
         std::equal(layout.tensors.begin(), layout.tensors.end(), layout.names.begin(),
                    layout.names.end(), [](const StoredTensor& stored, const std::string& name) {
                      return stored.name == name;
                    });
}

bool fits_moments(const StoredLayout& layout, const OptimizerState& state) {
  constexpr std::array kMoments = {"exp_avg",    "exp_avg_sq", "momentum_buffer",
                                   "square_avg", "sum",        "max_exp_avg_sq"};
  const auto known = by_stored_name(layout);
  for (const OptimizerState::Group& group : state.groups) {
    for (const ParameterState& item : group.parameters) {
      const auto found = known.find(item.name);
      if (found == known.end()) continue;
      for (const Parameter& slot : item.slots) {
        const bool is_moment =
            std::find(kMoments.begin(), kMoments.end(), slot.name) != kMoments.end();
        if (is_moment && slot.local.sizes() != at::IntArrayRef(found->second->shape)) return false;
      }
    }
  }
  return true;
}

}  // namespace accel
