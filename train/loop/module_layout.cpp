#include "train/loop/module_layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/hf/hf_family.h"
#include "models/lora/lora_options.h"

namespace accel {
namespace {

struct NamesOfModel {
  HfNames names;
  bool from_folder;
};

/// Null for a model that transformers lacks or with an adapter.
std::optional<NamesOfModel> names_of_model(const Job& job) {
  const Ref<Model>& model = job.recipe.model;
  const HfFamily::Table* family = HfFamily::of_component(model.type);
  if (!family || lora_of(model.resolved)) return std::nullopt;
  const Node::Entry* weights = model.resolved.find("weights");
  const Scalar* folder = weights ? weights->node.scalar() : nullptr;
  return NamesOfModel{family->names(detail::without_type(model.resolved)),
                      folder && !folder->text.empty()};
}

void set_part(StoredTensor& fused, const HfFusedPlace& place, const std::string& name) {
  if (fused.parts.size() <= place.row) fused.parts.resize(place.row + 1);
  std::vector<std::string>& row = fused.parts[place.row];
  if (row.size() <= place.column) row.resize(place.column + 1);
  row[place.column] = name;
}

/// The shape of the fused tensor, of parts of one shape.
Shape fused_shape(const StoredTensor& fused, const Shape& part) {
  Shape out = {static_cast<int64_t>(fused.parts.size())};
  out.insert(out.end(), part.begin(), part.end());
  out[1] *= static_cast<int64_t>(fused.parts.front().size());
  return out;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_hf_pattern(name, pattern); });
}

/// The layout in the model's order.
StoredLayout in_own_order(const HfNames& names, const std::vector<Parameter>& model) {
  StoredLayout out;
  std::map<std::string, size_t> fused;  // by the module's name
  for (const Parameter& item : model) {
    out.names.push_back(item.name);
    Shape shape = item.shape();
    const auto place = names.module.fused ? names.module.fused(item.name) : std::nullopt;
    if (place) {
      const auto [found, fresh] = fused.emplace(place->name, out.tensors.size());
      if (fresh) {
        out.tensors.push_back({.name = place->name, .shape = {}, .parts = {}, .stacked = true});
      }
      StoredTensor& tensor = out.tensors[found->second];
      set_part(tensor, *place, item.name);
      tensor.shape = fused_shape(tensor, shape);
      continue;
    }
    const bool transposed =
        shape.size() == 2 && matches_any(names.transposed, names.stored_name(item.name));
    if (transposed) std::swap(shape[0], shape[1]);
    out.tensors.push_back({.name = names.module.name ? names.module.name(item.name) : item.name,
                           .shape = std::move(shape),
                           .parts = {{item.name}},
                           .transposed = transposed});
  }
  return out;
}

/// The prefix of `name` before the component `module`: "a.b." of "a.b.mlp.c"; null without it.
std::optional<std::string> parent_of(const std::string& name, const std::string& module) {
  const std::string component = module + ".";
  if (name.starts_with(component)) return "";
  const size_t at = name.find("." + component);
  return at == name.npos ? std::nullopt : std::optional(name.substr(0, at + 1));
}

/// Moves the tensors of each `module` behind those of its `sibling`.
void move_later(const std::string& module, const std::string& sibling,
                std::vector<StoredTensor>& tensors) {
  std::map<std::string, size_t> last;  // of the sibling's tensors, by parent
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (const auto parent = parent_of(tensors[i].name, sibling)) last[*parent] = i;
  }
  std::vector<std::pair<size_t, StoredTensor>> keyed;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto parent = parent_of(tensors[i].name, module);
    const auto found = parent ? last.find(*parent) : last.end();
    const bool moves = found != last.end() && found->second > i;
    keyed.emplace_back(moves ? 2 * found->second + 1 : 2 * i, std::move(tensors[i]));
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i] = std::move(keyed[i].second);
}

std::shared_ptr<const StoredLayout> layout_of(const Job& job, const HfNames& names) {
  return std::make_shared<StoredLayout>(module_layout(names, job.parameters, job.buffers));
}

}  // namespace

StoredLayout module_layout(const HfNames& names, const std::vector<Parameter>& parameters,
                           const std::vector<Parameter>& buffers) {
  StoredLayout out;
  for (const auto* list : {&parameters, &buffers}) {
    StoredLayout part = in_own_order(names, *list);
    for (const auto& [module, sibling] : names.module.later) {
      move_later(module, sibling, part.tensors);
    }
    out.names.insert(out.names.end(), part.names.begin(), part.names.end());
    out.tensors.insert(out.tensors.end(), part.tensors.begin(), part.tensors.end());
  }
  return out;
}

std::shared_ptr<const StoredLayout> module_layout(const Job& job) {
  const std::optional<NamesOfModel> model = names_of_model(job);
  return model ? layout_of(job, model->names) : nullptr;
}

std::shared_ptr<const StoredLayout> written_layout(const Job& job) {
  const std::optional<NamesOfModel> model = names_of_model(job);
  if (!model || (model->names.module.from_folders_only && !model->from_folder)) return nullptr;
  std::shared_ptr<const StoredLayout> out = layout_of(job, model->names);
  return is_identity(*out) ? nullptr : out;
}

}  // namespace accel
