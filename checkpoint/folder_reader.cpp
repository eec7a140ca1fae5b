#include "checkpoint/folder_reader.h"

#include <algorithm>

#include "checkpoint/bus_guard.h"
#include "core/base/parallel.h"
#include "core/base/utf8.h"
#include "formats/checksum.h"
#include "formats/tensors/torch_file.h"

namespace accel {
namespace {

constexpr auto kDamagedHint =
    "resume from an older checkpoint of the run; 'resume: auto' finds the newest valid one";

constexpr auto kUnreadable = "cannot be read: the disk failed, or it has shrunk";

/// The checksum of a mapped file; reads all of its pages.
uint64_t checksum_or_fail(const std::string& folder, const std::string& name,
                          const SharedBytes& file) {
  struct Work {
    ByteSpan bytes;
    uint64_t checksum = 0;
  } work = {file.view};
  const bool read = survives_bus_error(
      [](void* argument) {
        auto& todo = *static_cast<Work*>(argument);
        todo.checksum = checksum_of(todo.bytes);
      },
      &work);
  if (!read) throw_damaged(folder, name, kUnreadable);
  return work.checksum;
}

/// The ends of a file, with the directory of an archive and most headers.
constexpr size_t kEndBytes = size_t{1} << 20;

}  // namespace

void access_or_fail(const std::string& folder, const std::string& name, ByteSpan bytes) {
  struct Work {
    ByteSpan bytes;
    uint64_t sum = 0;
  } work = {bytes};
  const bool read = survives_bus_error(
      [](void* argument) {
        constexpr size_t kPage = 4096;
        auto& todo = *static_cast<Work*>(argument);
        const volatile std::byte* at = todo.bytes.data();
        for (size_t i = 0; i < todo.bytes.size(); i += kPage) {
          todo.sum += std::to_integer<uint64_t>(at[i]);
        }
        if (!todo.bytes.empty()) todo.sum += std::to_integer<uint64_t>(at[todo.bytes.size() - 1]);
      },
      &work);
  if (!read) throw_damaged(folder, name, kUnreadable);
}

void throw_damaged(const std::string& folder, const std::string& file, const std::string& fault) {
  // A fault quotes arbitrary bytes of the file.
  throw CheckpointError(text("checkpoint '{}' is damaged: '{}' {}", folder, file, printable(fault)),
                        kDamagedHint);
}

std::map<std::string, DirEntry> entries_of(Files& files, const std::string& folder) {
  std::map<std::string, DirEntry> out;
  for (DirEntry& entry : guarded(folder, folder, [&] { return files.list(folder); })) {
    out.emplace(entry.name, std::move(entry));
  }
  return out;
}

void require_size(const std::string& folder, const std::string& name, int64_t found,
                  int64_t expected) {
  if (found == expected) return;
  throw_damaged(folder, name, text("has {} bytes, {} expected", found, expected));
}

SharedBytes verified_file(Files& files, const std::string& folder, const std::string& name,
                          const FileRecord& record) {
  SharedBytes file = guarded(folder, name, [&] { return files.read(folder + "/" + name); });
  require_size(folder, name, static_cast<int64_t>(file.view.size()), record.bytes);
  const uint64_t found = checksum_or_fail(folder, name, file);
  if (found != record.checksum) {
    throw_damaged(folder, name,
                  text("has checksum {}, {} expected", hex_text(found), hex_text(record.checksum)));
  }
  return file;
}

FolderReader::FolderReader(Files& files, std::string folder, const Manifest& manifest)
    : FolderReader(files, std::move(folder)) {
  verified_.emplace();
  std::vector<std::function<void()>> work;
  for (const auto& file : manifest.files) {
    SharedBytes& bytes = (*verified_)[file.first];
    work.push_back([&, this] { bytes = verified_file(files_, folder_, file.first, file.second); });
  }
  parallel_invoke(files.threads(), work);
}

FolderReader FolderReader::of_verified(Files& files, std::string folder) {
  FolderReader out(files, std::move(folder));
  out.others_verified_ = true;
  return out;
}

SharedBytes FolderReader::bytes(const std::string& name) const {
  if (!verified_) {
    SharedBytes file = guarded(folder_, name, [&] { return files_.read(folder_ + "/" + name); });
    if (others_verified_) {
      const size_t end = std::min(file.view.size(), kEndBytes);
      access_or_fail(folder_, name, file.view.first(end));
      access_or_fail(folder_, name, file.view.last(end));
      return file;
    }
    checksum_or_fail(folder_, name, file);
    return file;
  }
  const auto found = verified_->find(name);
  if (found == verified_->end())
    throw_damaged(folder_, kManifestFile, text("has no file '{}'", name));
  return found->second;
}

std::vector<NamedArray> FolderReader::tensors(const std::string& name) const {
  return guarded(folder_, name, [&] { return read_safetensors(bytes(name)).tensors; });
}

Value FolderReader::torch_file(const std::string& name, const GlobalFilter& also) const {
  return guarded(folder_, name, [&] {
    const SharedBytes file = bytes(name);
    if (!verified_ && !others_verified_) check_torch_file(file);
    return read_torch_file(file, also);
  });
}

}  // namespace accel
