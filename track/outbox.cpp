#include "track/outbox.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"

namespace accel {
namespace {

uint64_t bytes_of(const std::vector<std::string>& lines) {
  uint64_t bytes = 0;
  for (const std::string& line : lines) bytes += line.size() + 1;
  return bytes;
}

}  // namespace

Outbox::Outbox(std::string path, std::optional<int64_t> last_step, const StepOfLine& step_of)
    : path_(std::move(path)) {
  file_ = std::make_unique<AppendFile>(path_);
  const std::string offsets = path_ + ".sent";
  offsets_ = open_fd(offsets, O_RDWR | O_CREAT);
  if (!offsets_) throw IoError(text("cannot open '{}': {}", offsets, std::strerror(errno)));
  if (last_step) load_offsets();
  file_.reset();
  rewind(last_step, step_of);
  file_ = std::make_unique<AppendFile>(path_);
  save_offsets();
  count_unsent();
}

void Outbox::flush(Flush how) {
  file_->flush(how);
  flushed_ = true;
  if (how == Flush::kDurable && !sync_fd(offsets_)) {
    throw IoError(text("cannot sync '{}.sent': {}", path_, std::strerror(errno)));
  }
}

void Outbox::each(const std::function<void(const std::string& line)>& visit) const {
  std::ifstream in(path_, std::ios::binary);
  for (std::string line; std::getline(in, line);) visit(line);
}

std::vector<std::string> Outbox::first(
    const std::function<bool(const std::vector<std::string>& taken, const std::string& next)>& take)
    const {
  std::ifstream in(path_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(acknowledged_));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line) && !in.eof() && take(lines, line);) {
    lines.push_back(line);
  }
  return lines;
}

void Outbox::sending(const std::vector<std::string>& lines) {
  const uint64_t end = acknowledged_ + bytes_of(lines);
  if (end <= attempted_) return;
  attempted_ = end;
  save_offsets();
}

void Outbox::done(const std::vector<std::string>& lines) {
  acknowledged_ += bytes_of(lines);
  attempted_ = std::max(attempted_, acknowledged_);
  unsent_ -= std::min(unsent_, lines.size());
  save_offsets();
}

void Outbox::load_offsets() {
  char text[64] = {};
  if (::pread(offsets_.get(), text, sizeof text - 1, 0) < 0) return;
  unsigned long long done = 0, seen = 0;
  if (std::sscanf(text, "%20llu %20llu", &done, &seen) != 2) return;
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path_, error);
  if (error || done > seen || seen > size) return;  // offsets of another file: send all
  acknowledged_ = done;
  attempted_ = seen;
}

void Outbox::save_offsets() {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "%020llu %020llu\n",
                                   static_cast<unsigned long long>(acknowledged_),
                                   static_cast<unsigned long long>(attempted_));
  if (::pwrite(offsets_.get(), text, static_cast<size_t>(length), 0) != length) {
    throw IoError(accel::text("cannot write '{}.sent': {}", path_, std::strerror(errno)));
  }
}

void Outbox::rewind(std::optional<int64_t> last_step, const StepOfLine& step_of) {
  std::vector<std::string> kept;
  uint64_t at = 0;
  bool all = true;
  std::ifstream in(path_, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    const bool seen = at < attempted_;
    at += line.size() + 1;
    const std::optional<int64_t> step = in.eof() ? std::nullopt : step_of(line);  // eof: truncated
    if (last_step && step && (seen || *step <= *last_step)) {
      kept.push_back(line);
    } else {
      all = false;
    }
  }
  if (all) return;
  write_file_atomically(path_, [&](const ByteSink& write) {
    for (const std::string& line : kept) write(as_bytes(line + '\n'));
  });
}

void Outbox::count_unsent() {
  uint64_t at = 0;
  each([&](const std::string& line) {
    if (at >= acknowledged_) ++unsent_;
    at += line.size() + 1;
  });
}

}  // namespace accel
