#include "runner/cli/checkpoints.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <variant>

#include "core/api/data_shape.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "core/recipe/scalar.h"
#include "core/recipe/units.h"
#include "runner/report/html.h"
#include "train/loop/run_state.h"
#include "train/recipe/missing_inputs.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

std::vector<MissingInput> missing_of(const TrainedModel& trained, const char* section) {
  const Node::Entry* data = trained.resolved.find("data");
  const Node::Entry* found = data ? data->node.find(section) : nullptr;
  if (!found || found->node.null()) return {};
  return missing_inputs(found->node, "dataset", *trained.registry);
}

std::string data_hint(const MissingInput& missing) {
  return text("give the new path: --data {}=...", missing.option);
}

using Tensors = std::map<std::string, at::Tensor>;
using Numbers = std::map<std::string, double>;
using Texts = std::map<std::string, std::string>;

int64_t bytes_of(const std::vector<DirEntry>& files) {
  int64_t total = 0;
  for (const DirEntry& file : files) total += file.bytes;
  return total;
}

std::string row(std::string name, const std::string& value) {
  name.resize(std::max<size_t>(name.size(), 12), ' ');
  return "  " + name + " " + value + "\n";
}

std::string progress_text(const Progress& progress) {
  return text("step {}, epoch {} and {} steps, {} samples", progress.step, progress.epoch,
              progress.step_in_epoch, progress.samples);
}

/// Of a folder without progress.
std::string origin_text(const AccelerateNotes& notes) {
  std::string out = "Accelerate, in " + std::to_string(notes.processes) +
                    (notes.processes == 1 ? " process" : " processes");
  if (notes.updates) out += text("; the optimizer counts {} updates", *notes.updates);
  for (const std::string& file : notes.not_used) out += text("; not read: {}", file);
  return out;
}

/// Every tensor under "SECTION NAME".
Tensors tensors_of(const TrainState& state) {
  Tensors out;
  for (const Parameter& item : state.model) out["model " + item.name] = item.local;
  for (const OptimizerState::Group& group : state.optimizer.groups) {
    for (const OptimizerState::ParameterState& parameter : group.parameters) {
      for (const Parameter& slot : parameter.slots) {
        out["optimizer " + parameter.name + " " + slot.name] = slot.local;
      }
    }
  }
  for (const auto& [section, dict] : state.sections) {
    for (const auto& [name, tensor] : dict.tensors) out[section + " " + name] = tensor;
  }
  if (state.rng.defined()) out["generator"] = state.rng;
  for (size_t i = 0; i < state.other_rngs.size(); ++i) {
    out["generator of rank " + std::to_string(i + 1)] = state.other_rngs[i];
  }
  for (size_t i = 0; i < state.device_rngs.size(); ++i) {
    out["generator of the GPUs of rank " + std::to_string(i)] = state.device_rngs[i];
  }
  return out;
}

/// Of runs with different numbers of ranks: the generators of ranks that both have.
void drop_other_ranks(Tensors& tensors, const Tensors& other) {
  std::erase_if(tensors, [&](const auto& item) {
    return item.first.starts_with("generator of ") && !other.contains(item.first);
  });
}

std::string hyper_text(const HyperValue& value) {
  struct Show {
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const { return show_number(value); }
    std::string operator()(const std::string& value) const { return value; }
    std::string operator()(const std::vector<double>& values) const {
      std::vector<std::string> shown;
      for (const double value : values) shown.push_back(show_number(value));
      return "[" + joined(shown) + "]";
    }
  };
  return std::visit(Show(), value);
}

/// Options of parameter groups, and texts of all sections but trackers, whose ids are random, and
/// the record, which has times.
Texts texts_of(const TrainState& state) {
  Texts out;
  for (size_t i = 0; i < state.optimizer.groups.size(); ++i) {
    for (const auto& [name, value] : state.optimizer.groups[i].hyper) {
      if (name == "lr" && !state.lrs.empty()) continue;  // compared as a number
      out[name + " of group " + std::to_string(i)] = hyper_text(value);
    }
  }
  const auto add = [&out](const std::string& section, const StateDict& dict) {
    for (const auto& [name, value] : dict.texts) out[section + " " + name] = value;
  };
  add("scheduler", state.schedule);
  for (const auto& [section, dict] : state.sections) {
    if (section.starts_with("trackers/") || section == kRecordSection) continue;
    add(section, dict);
  }
  return out;
}

/// The numbers that are equal in equal runs: all but the elapsed time and the state of logging.
Numbers numbers_of(const TrainState& state) {
  Numbers out = {{"progress step", static_cast<double>(state.progress.step)},
                 {"progress epoch", static_cast<double>(state.progress.epoch)},
                 {"progress step_in_epoch", static_cast<double>(state.progress.step_in_epoch)},
                 {"progress samples", static_cast<double>(state.progress.samples)},
                 {"progress tokens", static_cast<double>(state.progress.tokens)},
                 {"seed", static_cast<double>(state.seed)}};
  for (size_t i = 0; i < state.lrs.size(); ++i)
    out["lr of group " + std::to_string(i)] = state.lrs[i];
  for (size_t i = 0; i < state.base_lrs.size(); ++i)
    out["base lr of group " + std::to_string(i)] = state.base_lrs[i];
  const auto add = [&out](const std::string& section, const StateDict& dict) {
    for (const auto& [name, value] : dict.numbers) {
      if (section == "run" && (name == "seconds" || name.starts_with("interval/"))) continue;
      out[section + " " + name] = value;
    }
  };
  add("scheduler", state.schedule);
  if (state.scaler) add("scaler", *state.scaler);
  for (const auto& [section, dict] : state.sections) add(section, dict);
  for (const auto& [name, value] : state.metrics) out["metric " + name] = value;
  return out;
}

/// "" when bit-identical.
std::string difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) {
    return text("has shape {} and {}", to_string(a.sizes().vec()), to_string(b.sizes().vec()));
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
  const bool same = std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  return same ? "" : "is " + show_number(a) + " and " + show_number(b);
}

std::string difference(const std::string& a, const std::string& b) {
  return a == b ? "" : text("is '{}' and '{}'", a, b);
}

template <class T>
void compare(const std::map<std::string, T>& a, const std::map<std::string, T>& b,
             std::vector<std::string>& out) {
  for (const auto& [name, value] : a) {
    const auto other = b.find(name);
    if (other == b.end()) {
      out.push_back(text("{} is only in the first", name));
    } else if (const std::string found = difference(value, other->second); !found.empty()) {
      out.push_back(text("{} {}", name, found));
    }
  }
  for (const auto& [name, value] : b) {
    if (!a.contains(name)) out.push_back(text("{} is only in the second", name));
  }
}

}  // namespace

bool is_run(const std::string& path) {
  std::error_code error;
  const fs::path run = path;
  return fs::is_directory(run / "checkpoints", error) || fs::exists(run / "recipe.yaml", error);
}

std::string checkpoint_at(DiskFiles& files, const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) {
    throw IoError(text("cannot open '{}': {}", path, error.message()));
  }
  if (status.type() != fs::file_type::directory) {
    throw Error(ExitCode::kRecipe, text("'{}' is not a folder", path),
                "give a run folder, or one of its checkpoints");
  }
  if (!is_run(path)) return path;
  const auto entries = CheckpointStore(files, path).list();
  if (entries.empty()) throw CheckpointError(text("'{}' has no checkpoints", path));
  return entries.back().path;
}

namespace {

/// A path to be created, of a "folder" or a "file".
std::string new_path(const std::string& path, const char* kind) {
  fs::path target = fs::path(path).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();
  if (target.empty()) {
    throw Error(ExitCode::kRecipe, "the target has no name",
                text("name a {} that does not exist yet", kind));
  }
  std::error_code error;
  if (fs::exists(fs::symlink_status(target, error))) {
    throw Error(ExitCode::kRecipe, text("'{}' already exists", path),
                text("name a {} that does not exist: nothing is overwritten", kind));
  }
  return target.string();
}

}  // namespace

std::string new_folder(const std::string& path) {
  return new_path(path, "folder");
}

std::string new_file(const std::string& path) {
  return new_path(path, "file");
}

uint64_t shard_bytes(const std::string& value, const char* flag) {
  const Parsed<ByteSize> size = parse_byte_size({value, false});
  if (!size.value || size.value->bytes <= 0) {
    throw Error(ExitCode::kRecipe, text("'{}' must be a size, not '{}'", flag, value),
                size.hint.empty() ? "such as '5 GB' or '500 MiB'" : size.hint);
  }
  return static_cast<uint64_t>(size.value->bytes);
}

std::string listing_text(const std::vector<DirEntry>& entries) {
  std::string out;
  for (const DirEntry& entry : entries) {
    const bool folder = entry.kind == DirEntry::Kind::kFolder;
    out +=
        "  " + entry.name + (folder ? "/" : "  " + std::to_string(entry.bytes) + " bytes") + "\n";
  }
  return out;
}

void require_eval_data(const TrainedModel& trained) {
  const char* section = trained.recipe.data.split.eval ? "train" : "eval";
  for (const MissingInput& missing : missing_of(trained, section)) {
    throw DataError(text("eval data: {}", missing.message), data_hint(missing));
  }
}

void require_input(const TrainedModel& trained, const Node& dataset) {
  for (const MissingInput& missing : missing_inputs(dataset, "dataset", *trained.registry)) {
    if (missing.option != "path") throw DataError(missing.message, data_hint(missing));
    std::string message = missing.message;
    message.replace(0, std::string("'path'").size(), "'--input'");
    throw DataError(message, missing.hint);
  }
}

void require_tokenizer(const TrainedModel& trained) {
  for (const MissingInput& missing : missing_of(trained, "train")) {
    if (missing.option != "tokenizer") continue;
    throw DataError(missing.message, "name one with --tokenizer");
  }
}

std::string list_text(const CheckpointStore& store) {
  std::string out;
  for (const CheckpointEntry& entry : store.list()) {
    out += entry.path + "  ";
    try {
      const TrainState state = store.inspect(entry.path);
      out += progress_text(state.progress);
      for (const auto& [name, value] : state.metrics) {
        out += ", " + name + " " + number_words(value);
      }
      store.verify(entry.path);
      out += ", whole\n";
    } catch (const CheckpointError& error) {
      out += std::string(out.ends_with("  ") ? "" : ", ") + "NOT whole: " + error.what() + "\n";
    }
  }
  return out;
}

std::vector<DirEntry> checkpoint_files(Files& files, const std::string& folder) {
  std::vector<DirEntry> out;
  for (const DirEntry& entry : files.list(folder)) {
    if (entry.kind != DirEntry::Kind::kFolder) {
      out.push_back(entry);
      continue;
    }
    for (DirEntry inside : files.list(folder + "/" + entry.name)) {
      inside.name = entry.name + "/" + inside.name;
      out.push_back(std::move(inside));
    }
  }
  return out;
}

std::string inspect_text(const TrainState& state, const std::vector<DirEntry>& files) {
  std::string out = state.accelerate ? row("written by", origin_text(*state.accelerate))
                                     : row("progress", progress_text(state.progress));
  std::vector<std::string> lrs;
  for (const double lr : state.lrs) lrs.push_back(show_number(lr));
  out += row("lr", joined(lrs));
  std::map<std::string, std::pair<int64_t, int64_t>> sections;  // tensors and their values
  for (const auto& [name, tensor] : tensors_of(state)) {
    auto& [count, values] = sections[name.substr(0, name.find(' '))];
    ++count;
    if (tensor.defined()) values += tensor.numel();
  }
  for (const auto& [section, size] : sections) {
    out += row(section, text("{} tensors, {} values", size.first, size.second));
  }
  for (const auto& [name, value] : state.metrics) out += row(name, show_number(value));
  for (const auto& [name, value] : state.provenance) out += row(name, value);
  for (const DirEntry& file : files) out += row(file.name, std::to_string(file.bytes) + " bytes");
  return out + row("total", std::to_string(bytes_of(files)) + " bytes");
}

std::vector<std::string> differences(const TrainState& a, const TrainState& b) {
  std::vector<std::string> out;
  compare(numbers_of(a), numbers_of(b), out);
  compare(texts_of(a), texts_of(b), out);
  Tensors first = tensors_of(a), second = tensors_of(b);
  drop_other_ranks(first, second);
  drop_other_ranks(second, first);
  compare(first, second, out);
  return out;
}

}  // namespace accel
