#include "runner/checkpoint/writer.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "runner/checkpoint/accelerate_files.h"
#include "runner/checkpoint/layout.h"
#include "runner/checkpoint/manifest.h"
#include "runner/checkpoint/tensors.h"
#include "runner/formats/checksum.h"
#include "runner/formats/safetensors.h"
#include "runner/formats/torch_file.h"

namespace accel {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr int64_t kBytesPerTensor = 1024;  // its names, sizes and padding in the files' headers
constexpr int64_t kBytesPerCheckpoint = int64_t{64} << 10;

/// Writes the files of a folder one by one and keeps their sizes and checksums.
class FolderWriter {
 public:
  FolderWriter(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  /// `content` gives the bytes to the sink it gets.
  template <class Content>
  void add(const std::string& name, Content content) {
    const std::unique_ptr<OutputFile> file = files_.create(folder_ + "/" + name);
    Checksum checksum;
    FileRecord record;
    content(ByteSink([&](ByteSpan bytes) {
      // In pieces, so that the bytes are still in the cache when they are written.
      for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kPieceBytes))) {
        const ByteSpan piece = bytes.first(std::min(bytes.size(), kPieceBytes));
        checksum.update(piece);
        file->write(piece);
        record.bytes += static_cast<int64_t>(piece.size());
      }
    }));
    file->sync();
    file->close();
    record.checksum = checksum.value();
    records_[name] = record;
  }

  void add_value(const std::string& name, const Value& value) {
    add(name, [&](const ByteSink& sink) {
      write_torch_file(value, name.substr(0, name.find('.')), sink);
    });
  }

  void add_tensors(const std::string& name, const std::vector<NamedArray>& tensors) {
    add(name, [&](const ByteSink& sink) { write_safetensors(tensors, sink); });
  }

  const std::map<std::string, FileRecord>& records() const { return records_; }

 private:
  Files& files_;
  std::string folder_;
  std::map<std::string, FileRecord> records_;
};

/// The arrays of a model, each memory once; the names left out go to the manifest.
std::vector<NamedArray> untied_arrays(const TrainState& state, Manifest& manifest) {
  using Place = std::tuple<const void*, std::vector<int64_t>, std::vector<int64_t>>;
  std::map<Place, std::string> first;
  std::vector<NamedArray> out;
  for (const auto& [name, tensor] : state.model) {
    Array array = array_of(tensor, name);
    manifest.model.push_back(name);
    if (tensor.numel() > 0) {
      const Place place = {tensor.data_ptr(), tensor.sizes().vec(), tensor.strides().vec()};
      const auto [seen, fresh] = first.emplace(place, name);
      if (!fresh) {
        manifest.tied[name] = seen->second;
        continue;
      }
    }
    out.push_back({name, std::move(array)});
  }
  return out;
}

std::vector<NamedArray> section_arrays(const TrainState& state) {
  std::vector<NamedArray> out;
  for (const auto& [prefix, section] : sections_of(state)) {
    for (const auto& [name, tensor] : section->tensors) {
      out.push_back({prefix + name, array_of(tensor, prefix + name)});
    }
  }
  return out;
}

/// Counts tensors and their bytes.
struct TensorCount {
  int64_t tensors = 0;
  int64_t bytes = 0;

  void add(const at::Tensor& tensor) {
    ++tensors;
    if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  }
};

}  // namespace

int64_t checkpoint_bytes(const TrainState& state) {
  TensorCount count;
  for (const NamedTensor& named : state.model) count.add(named.tensor);
  for (const OptimizerState::Group& group : state.optimizer.groups) {
    for (const OptimizerState::Parameter& parameter : group.parameters) {
      for (const NamedTensor& slot : parameter.slots) count.add(slot.tensor);
    }
  }
  for (const auto& [prefix, section] : sections_of(state)) {
    for (const auto& [name, tensor] : section->tensors) count.add(tensor);
  }
  return count.bytes + count.tensors * kBytesPerTensor + kBytesPerCheckpoint +
         static_cast<int64_t>(2 * state.recipe.size());
}

void write_checkpoint(Files& files, const std::string& folder, const TrainState& state) {
  Manifest manifest;
  manifest.state = state;
  manifest.optimizer = optimizer_parameters(state.optimizer);
  FolderWriter writer(files, folder);
  writer.add_tensors(kModelFile, untied_arrays(state, manifest));
  writer.add_value(kOptimizerFile, optimizer_value(state));
  writer.add_value(kSchedulerFile, scheduler_value(state));
  if (state.scaler) writer.add_value(kScalerFile, scaler_value(*state.scaler));
  writer.add_value(kRandomStatesFile, random_states_value(state));
  writer.add_tensors(kPartsFile, section_arrays(state));
  manifest.files = writer.records();
  const std::string text = write_manifest(manifest);
  writer.add(kManifestFile, [&](const ByteSink& sink) { sink(as_bytes(text)); });
  files.sync_dir(folder);
}

}  // namespace accel
