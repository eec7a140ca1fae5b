// Storages of tensors in PyTorch files, and files of torch before 1.6, which are no archives.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/base/mapped_file.h"
#include "formats/tensors/pickle.h"

namespace accel {

struct TorchStorage {
  ByteSpan bytes;
  std::shared_ptr<const void> owner;  ///< of the bytes
};

/// By the key in the pickle.
using TorchStorages = std::map<std::string, TorchStorage, std::less<>>;

struct LegacyTorchFile {
  Value value;  ///< whose tensors are calls
  TorchStorages storages;
};

/// Whether the file begins as those that torch.save writes with
/// _use_new_zipfile_serialization=False: a magic number, version, byte order and value as pickles,
/// then the storages.
bool is_legacy_torch_file(ByteSpan file);

/// Reads the pickles and copies the storages, which are not aligned in the file. Throws
/// FormatError.
LegacyTorchFile read_legacy_torch_file(ByteSpan file, const GlobalFilter& allowed,
                                       MemoryBudget& budget);

}  // namespace accel
