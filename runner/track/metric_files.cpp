#include "runner/track/metric_files.h"

namespace accel {
namespace {

constexpr size_t kMostOpen = 500;  // a process may have 1024 as a rule

}  // namespace

AppendFile& MetricFiles::at(const std::string& path) {
  const auto found = open_.find(path);
  if (found != open_.end()) return *found->second;
  if (open_.size() >= kMostOpen) {
    flush(Flush::kReadable);
    for (const auto& [name, file] : open_) unsynced_.insert(name);
    open_.clear();
  }
  auto opened = std::make_unique<AppendFile>(path);
  return *(open_[path] = std::move(opened));
}

void MetricFiles::flush(Flush how) {
  for (auto& [path, file] : open_) file->flush(how);
  if (how == Flush::kReadable) return;
  for (const std::string& path : unsynced_) AppendFile(path).sync();
  unsynced_.clear();
}

}  // namespace accel
