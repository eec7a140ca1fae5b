// The files of one checkpoint folder, each fault told with the folder and the file it is in.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "runner/checkpoint/files.h"
#include "runner/checkpoint/manifest.h"
#include "runner/formats/format_error.h"
#include "runner/formats/pickle.h"
#include "runner/formats/safetensors.h"

namespace accel {

[[noreturn]] void throw_damaged(const std::string& folder, const std::string& file,
                                const std::string& fault);

/// Runs `read`, which may find a fault in `file`: that becomes a CheckpointError.
template <class Read>
auto guarded(const std::string& folder, const std::string& file, Read read) {
  try {
    return read();
  } catch (const FormatError& error) {
    throw_damaged(folder, file, "cannot be read: " + std::string(error.what()));
  } catch (const FileError& error) {
    throw CheckpointError("checkpoint '" + folder + "': " + error.what());
  }
}

/// What is in a folder, by name. Throws CheckpointError.
std::map<std::string, DirEntry> entries_of(Files& files, const std::string& folder);

/// Throws CheckpointError unless the two are equal.
void require_size(const std::string& folder, const std::string& name, int64_t found,
                  int64_t expected);

/// The file, when its size and checksum are those of the record. Throws CheckpointError.
SharedBytes verified_file(Files& files, const std::string& folder, const std::string& name,
                          const FileRecord& record);

/// Reads files whole: those of a checkpoint of ours all at once, verified; others when asked for.
/// All throw CheckpointError.
class FolderReader {
 public:
  FolderReader(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}
  FolderReader(Files& files, std::string folder, const Manifest& manifest);

  const std::string& folder() const { return folder_; }
  SharedBytes bytes(const std::string& name) const;
  /// Those of a safetensors file.
  std::vector<NamedArray> tensors(const std::string& name) const;
  /// What a torch file holds.
  Value torch_file(const std::string& name) const;
  /// Gives that to `use`, which may find a fault in it.
  template <class Use>
  void value(const std::string& name, Use use) const {
    guarded(folder_, name, [&] { use(torch_file(name)); });
  }
  /// Gives what several torch files hold to `use`, which may find a fault in it.
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
  std::optional<std::map<std::string, SharedBytes>> verified_;  ///< none for one of Accelerate's
};

}  // namespace accel
