// PyTorch files (.pt, .bin, .pkl): a zip archive with a pickle and tensor storages. Files of torch
// before 1.6 are read too.
#pragma once

#include <string>

#include "core/base/mapped_file.h"
#include "formats/tensors/pickle.h"

namespace accel {

/// Writes a file for torch.load(weights_only=True), with arrays as contiguous tensors. `name` is
/// the archive's top folder; PyTorch uses the file's stem.
void write_torch_file(const Value& value, const std::string& name, const ByteSink& sink);

/// Reads tensors as arrays: views that keep `file` alive if contiguous and aligned, else copies.
/// Other objects stay calls. Throws FormatError for tensors outside their storage and for classes
/// that neither torch.load(weights_only=True) nor `also`, which may be null, allows.
Value read_torch_file(const SharedBytes& file, const GlobalFilter& also = {});

/// Checks all CRC-32s of the archive, where present. Throws FormatError.
void check_torch_file(const SharedBytes& file);

/// As read_torch_file() for a torch file inside another file, whose `budget` is charged. With
/// `unaligned`, contiguous tensors are views even if unaligned.
Value read_embedded_torch_file(const SharedBytes& file, MemoryBudget& budget, bool unaligned);

}  // namespace accel
