#include "runner/cli/checkpoint_text.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "core/data_shape.h"
#include "core/error.h"
#include "core/scalar.h"

namespace accel {
namespace {

using Tensors = std::map<std::string, at::Tensor>;
using Numbers = std::map<std::string, double>;

int64_t bytes_of(const std::vector<DirEntry>& files) {
  int64_t total = 0;
  for (const DirEntry& file : files) total += file.bytes;
  return total;
}

std::string row(std::string name, const std::string& text) {
  name.resize(std::max<size_t>(name.size(), 12), ' ');
  return "  " + name + " " + text + "\n";
}

std::string progress_text(const Progress& progress) {
  return "step " + std::to_string(progress.step) + ", epoch " + std::to_string(progress.epoch) +
         " and " + std::to_string(progress.step_in_epoch) + " steps, " +
         std::to_string(progress.samples) + " samples";
}

/// Of a folder that knows no progress.
std::string origin_text(const AccelerateNotes& notes) {
  std::string out = "Accelerate, in " + std::to_string(notes.processes) +
                    (notes.processes == 1 ? " process" : " processes");
  if (notes.updates) out += "; the optimizer counts " + std::to_string(*notes.updates) + " updates";
  for (const std::string& file : notes.not_used) out += "; not read: " + file;
  return out;
}

std::string joined(const std::vector<double>& values) {
  std::string out;
  for (const double value : values) out += (out.empty() ? "" : ", ") + show_number(value);
  return out;
}

/// Every tensor by a name that says which part it belongs to.
Tensors tensors_of(const TrainState& state) {
  Tensors out;
  for (const NamedTensor& item : state.model) out["model " + item.name] = item.tensor;
  for (const OptimizerState::Group& group : state.optimizer.groups) {
    for (const OptimizerState::Parameter& parameter : group.parameters) {
      for (const NamedTensor& slot : parameter.slots) {
        out["optimizer " + parameter.name + " " + slot.name] = slot.tensor;
      }
    }
  }
  for (const auto& [part, dict] : state.parts) {
    for (const auto& [name, tensor] : dict.tensors) out[part + " " + name] = tensor;
  }
  if (state.rng.defined()) out["generator"] = state.rng;
  return out;
}

/// Numbers that equal runs share. How long a run took is none.
Numbers numbers_of(const TrainState& state) {
  Numbers out = {{"progress step", static_cast<double>(state.progress.step)},
                 {"progress epoch", static_cast<double>(state.progress.epoch)},
                 {"progress step_in_epoch", static_cast<double>(state.progress.step_in_epoch)},
                 {"progress samples", static_cast<double>(state.progress.samples)},
                 {"progress tokens", static_cast<double>(state.progress.tokens)},
                 {"seed", static_cast<double>(state.seed)}};
  for (size_t i = 0; i < state.lrs.size(); ++i)
    out["lr of group " + std::to_string(i)] = state.lrs[i];
  const auto add = [&out](const std::string& part, const StateDict& dict) {
    for (const auto& [name, value] : dict.numbers) {
      if (part != "run" || name != "seconds") out[part + " " + name] = value;
    }
  };
  add("scheduler", state.schedule);
  if (state.scaler) add("scaler", *state.scaler);
  for (const auto& [part, dict] : state.parts) add(part, dict);
  for (const auto& [name, value] : state.metrics) out["metric " + name] = value;
  return out;
}

/// "" when equal to the last bit.
std::string difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) {
    return "has shape " + to_string(a.sizes().vec()) + " and " + to_string(b.sizes().vec());
  }
  if (a.scalar_type() != b.scalar_type()) {
    return std::string("is ") + c10::toString(a.scalar_type()) + " and " +
           c10::toString(b.scalar_type());
  }
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  if (x.nbytes() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0) return {};
  const at::Tensor far = x.to(at::kDouble).sub(y.to(at::kDouble)).abs();
  return "differs in " + std::to_string(x.ne(y).sum().item().toLong()) + " of " +
         std::to_string(x.numel()) + " values, by up to " +
         show_number(far.max().item().toDouble());
}

std::string difference(double a, double b) {
  const bool same = std::memcmp(&a, &b, sizeof a) == 0;
  return same ? "" : "is " + show_number(a) + " and " + show_number(b);
}

template <class T>
void compare(const std::map<std::string, T>& a, const std::map<std::string, T>& b,
             std::vector<std::string>& out) {
  for (const auto& [name, value] : a) {
    const auto other = b.find(name);
    const std::string text =
        other == b.end() ? "is only in the first" : difference(value, other->second);
    if (!text.empty()) out.push_back(name + " " + text);
  }
  for (const auto& [name, value] : b) {
    if (!a.contains(name)) out.push_back(name + " is only in the second");
  }
}

}  // namespace

std::string list_text(const CheckpointStore& store) {
  std::string out;
  for (const CheckpointEntry& entry : store.list()) {
    out += entry.path + "  ";
    try {
      const TrainState state = store.inspect(entry.path);
      out += progress_text(state.progress);
      for (const auto& [name, value] : state.metrics) out += ", " + name + " " + show_number(value);
      store.verify(entry.path);
      out += ", whole\n";
    } catch (const CheckpointError& error) {
      out += std::string(out.ends_with("  ") ? "" : ", ") + "NOT whole: " + error.what() + "\n";
    }
  }
  return out;
}

std::string inspect_text(const TrainState& state, const std::vector<DirEntry>& files) {
  std::string out = state.accelerate ? row("written by", origin_text(*state.accelerate))
                                     : row("progress", progress_text(state.progress));
  out += row("lr", joined(state.lrs));
  std::map<std::string, std::pair<int64_t, int64_t>> parts;  // tensors and numbers in them
  for (const auto& [name, tensor] : tensors_of(state)) {
    auto& [count, values] = parts[name.substr(0, name.find(' '))];
    ++count;
    if (tensor.defined()) values += tensor.numel();
  }
  for (const auto& [part, size] : parts) {
    out += row(part,
               std::to_string(size.first) + " tensors, " + std::to_string(size.second) + " values");
  }
  for (const auto& [name, value] : state.metrics) out += row(name, show_number(value));
  for (const auto& [name, value] : state.facts) out += row(name, value);
  for (const DirEntry& file : files) out += row(file.name, std::to_string(file.bytes) + " bytes");
  return out + row("in all", std::to_string(bytes_of(files)) + " bytes");
}

std::vector<std::string> differences(const TrainState& a, const TrainState& b) {
  std::vector<std::string> out;
  compare(numbers_of(a), numbers_of(b), out);
  compare(tensors_of(a), tensors_of(b), out);
  return out;
}

}  // namespace accel
