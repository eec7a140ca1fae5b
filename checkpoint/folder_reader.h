// Reads the files of a checkpoint folder; errors name the folder and the file.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "formats/tensors/pickle.h"
#include "formats/tensors/safetensors.h"

namespace accel {

[[noreturn]] void throw_damaged(const std::string& folder, const std::string& file,
                                const std::string& fault);

/// Runs `read` and converts its FormatError or FileError to a CheckpointError about `file`.
template <class Read>
auto guarded(const std::string& folder, const std::string& file, Read read) {
  try {
    return read();
  } catch (const FormatError& error) {
    throw_damaged(folder, file, text("cannot be read: {}", error.what()));
  } catch (const FileError& error) {
    throw CheckpointError(text("checkpoint '{}': {}", folder, error.what()));
  }
}

/// The entries of a folder by name. Throws CheckpointError.
std::map<std::string, DirEntry> entries_of(Files& files, const std::string& folder);

/// Throws CheckpointError unless both sizes are equal.
void require_size(const std::string& folder, const std::string& name, int64_t found,
                  int64_t expected);

/// The file, after comparing its size and checksum with the record. Throws CheckpointError.
SharedBytes verified_file(Files& files, const std::string& folder, const std::string& name,
                          const FileRecord& record);

/// Reads the bytes of a mapped file once, so that a later access cannot fail. Throws
/// CheckpointError.
void access_or_fail(const std::string& folder, const std::string& name, ByteSpan bytes);

/// With a manifest reads and verifies all files in the constructor, else reads each on demand.
/// Throws CheckpointError.
class FolderReader {
 public:
  FolderReader(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}
  FolderReader(Files& files, std::string folder, const Manifest& manifest);

  /// Of files that others have verified: reads their ends only. Tensors are views of bytes that
  /// have not been accessed.
  static FolderReader of_verified(Files& files, std::string folder);

  const std::string& folder() const { return folder_; }
  SharedBytes bytes(const std::string& name) const;
  /// The tensors of a safetensors file.
  std::vector<NamedArray> tensors(const std::string& name) const;
  /// The value of a torch.save() file, which may also have the classes that `also` allows.
  Value torch_file(const std::string& name, const GlobalFilter& also = {}) const;
  /// Passes it to `use`, whose FormatErrors become CheckpointErrors.
  template <class Use>
  void value(const std::string& name, Use use) const {
    guarded(folder_, name, [&] { use(torch_file(name)); });
  }
  /// As value(), for several files.
  template <class Use>
  void values(const std::vector<std::string>& names, Use use) const {
    guarded(folder_, names.front(), [&] {
      std::vector<Value> out;
      for (const std::string& name : names) out.push_back(torch_file(name));
      use(std::move(out));
    });
  }

 private:
  Files& files_;
  std::string folder_;
  std::optional<std::map<std::string, SharedBytes>> verified_;  ///< null without a manifest
  bool others_verified_ = false;
};

}  // namespace accel
