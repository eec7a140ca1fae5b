// Writes and syncs the files of a checkpoint folder.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "core/base/files.h"
#include "formats/checksum.h"
#include "formats/tensors/safetensors.h"
#include "formats/tensors/torch_file.h"

namespace accel {

/// Removes a folder after a failure and ignores further failures.
inline void remove_quietly(Files& files, const std::string& folder) {
  try {
    files.remove_tree(folder);
  } catch (const FileError&) {  // the first error is reported
  }
}

/// Records the size and checksum of each file. add() is thread-safe. Throws FileError.
class FolderWriter {
 public:
  FolderWriter(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  /// `content` passes the bytes to the sink.
  template <class Content>
  void add(const std::string& name, Content content) {
    const std::unique_ptr<OutputFile> file = files_.create(folder_ + "/" + name);
    Checksum checksum;
    FileRecord record;
    content(ByteSink([&](ByteSpan bytes) {
      // Small pieces stay in the CPU cache between the checksum and the write.
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
    const std::lock_guard lock(mutex_);
    records_[name] = record;
  }

  void add_text(const std::string& name, const std::string& text) {
    add(name, [&](const ByteSink& sink) { sink(as_bytes(text)); });
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
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  Files& files_;
  std::string folder_;
  std::mutex mutex_;
  std::map<std::string, FileRecord> records_;
};

}  // namespace accel
