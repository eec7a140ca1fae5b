#include "core/base/drafts.h"

#include <unistd.h>
#include <csignal>

#include <cerrno>
#include <charconv>
#include <exception>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/text.h"

namespace accel {
namespace {

constexpr std::string_view kDraftEnd = ".new";

/// The process whose draft has this name; nothing for another file.
std::optional<pid_t> writer_of(std::string_view name) {
  if (!name.ends_with(kDraftEnd)) return std::nullopt;
  name.remove_suffix(kDraftEnd.size());
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  pid_t writer = 0;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + dot + 1, last, writer);
  if (error != std::errc() || end != last || writer <= 0) return std::nullopt;
  return writer;
}

}  // namespace

std::string draft_of(const std::string& path) {
  return text("{}.{}{}", path, ::getpid(), kDraftEnd);
}

void remove_drafts(const std::string& folder) noexcept try {
  namespace fs = std::filesystem;
  std::vector<fs::path> drafts;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::optional<pid_t> writer = writer_of(entry.path().filename().string());
    const bool lives = writer && (::kill(*writer, 0) == 0 || errno == EPERM);
    if (writer && !lives && entry.is_regular_file()) drafts.push_back(entry.path());
  }
  for (const fs::path& draft : drafts) fs::remove(draft);
} catch (const std::exception&) {
  return;  // a folder that changes meanwhile, or of another user
}

}  // namespace accel
