// PyTorch's .pt, .bin and .pkl files: a zip archive with a pickle and the tensors' storages.
#pragma once

#include <string>

#include "runner/formats/mapped_file.h"
#include "runner/formats/pickle.h"

namespace accel {

/// Writes what torch.load(weights_only=True) reads, byte order little, arrays as contiguous
/// tensors. `name` becomes the archive's top folder; PyTorch uses the file's stem.
void write_torch_file(const Value& value, const std::string& name, const ByteSink& sink);

/// Reads a file held in memory or mapped. Tensors come back as arrays: views that keep the file
/// alive where they are contiguous and aligned, else copies. Other objects stay calls. Throws
/// FormatError for a class outside torch.load's own list, and for a tensor outside its storage.
Value read_torch_file(const SharedBytes& file);

/// Compares the bytes of everything in the file with its checksums, where it has them. Throws
/// FormatError.
void check_torch_file(const SharedBytes& file);

/// As read_torch_file() for a torch file inside another file, on a budget for the whole of that.
/// With `unaligned`, views are not copied for not being aligned.
Value read_torch_part(const SharedBytes& part, MemoryBudget& budget, bool unaligned);

}  // namespace accel
