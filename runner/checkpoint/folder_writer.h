// Writes the files of a checkpoint folder, each on the disk when it is said to be.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runner/checkpoint/files.h"
#include "runner/checkpoint/manifest.h"
#include "runner/formats/checksum.h"
#include "runner/formats/safetensors.h"
#include "runner/formats/torch_file.h"

namespace accel {

/// Keeps the size and checksum of each file. Several threads may add. All throw FileError.
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
