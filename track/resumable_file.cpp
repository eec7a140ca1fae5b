#include "track/resumable_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/folders.h"
#include "core/base/text.h"

namespace accel {
namespace {

/// Calls `keep` with each line to be kept; false when a line was dropped.
bool each_kept_line(const std::string& path, int64_t last_step, const StepOfLine& step_of,
                    const std::function<void(std::string_view)>& keep) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw IoError(text("cannot read '{}': {}", path, std::strerror(errno)));
  bool all = true;
  std::string line;
  while (std::getline(in, line)) {
    const bool truncated = in.eof();  // the newline is missing
    const std::optional<int64_t> step = truncated ? std::nullopt : step_of(line);
    if (step && *step <= last_step) {
      keep(line);
    } else {
      all = false;
    }
  }
  if (in.bad()) throw IoError(text("cannot read '{}': {}", path, std::strerror(errno)));
  return all;
}

constexpr size_t kMostOpen = 500;  // the usual limit of a process is 1024

}  // namespace

void rewind_lines(const std::string& path, int64_t last_step, const StepOfLine& step_of,
                  const std::string& draft) {
  std::error_code unreadable;  // reported by the next open
  if (!std::filesystem::is_regular_file(path, unreadable)) return;
  if (each_kept_line(path, last_step, step_of, [](std::string_view) {})) return;
  write_file_atomically(draft.empty() ? path : draft, [&](const ByteSink& write) {
    each_kept_line(path, last_step, step_of, [&](std::string_view line) {
      write(as_bytes(line));
      write(as_bytes("\n"));
    });
  });
  if (!draft.empty()) publish_file(draft, path);
}

bool ends_with_step(const std::string& path, int64_t step, const StepOfLine& step_of) {
  std::ifstream in(path, std::ios::binary);
  std::optional<int64_t> last;
  for (std::string line; std::getline(in, line);) last = step_of(line);
  return last == step;
}

AppendFile& MetricFiles::at(const std::string& path) {
  const auto found = open_.find(path);
  if (found != open_.end()) return *found->second;
  if (open_.size() >= kMostOpen) {
    flush(Flush::kReadable);
    for (const auto& [name, file] : open_) unsynced_.insert(name);
    open_.clear();
  }
  make_folder_within(root_, folder_of(path));
  auto opened = std::make_unique<AppendFile>(path);
  return *(open_[path] = std::move(opened));
}

void MetricFiles::flush(Flush how) {
  for (auto& [path, file] : open_) file->flush(how);
  if (how == Flush::kReadable) return;
  for (const std::string& path : unsynced_) AppendFile(path).sync();
  unsynced_.clear();
}

void ResumableFile::create(const std::string& path) {
  bytes_ = 0;
  std::error_code error;  // reported by the open
  std::filesystem::remove(path, error);
  file_ = std::make_unique<AppendFile>(path);
}

bool ResumableFile::resume(const std::string& path, uint64_t bytes) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error || size < bytes) return false;
  std::filesystem::resize_file(path, bytes, error);
  if (error) return false;
  bytes_ = bytes;
  file_ = std::make_unique<AppendFile>(path);
  return true;
}

void ResumableFile::append(std::string_view bytes) {
  file_->make_room();  // rejected bytes must not count
  bytes_ += bytes.size();
  file_->append(bytes);
}

}  // namespace accel
