#include "runner/track/outbox.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"

namespace accel {
namespace {

constexpr mode_t kReadableByAll = 0666;  // less the umask

uint64_t bytes_of(const std::vector<std::string>& lines) {
  uint64_t bytes = 0;
  for (const std::string& line : lines) bytes += line.size() + 1;
  return bytes;
}

}  // namespace

Outbox::Outbox(std::string path, int64_t first_step, const StepOfLine& step_of)
    : path_(std::move(path)) {
  file_ = std::make_unique<AppendFile>(path_);  // makes the folder
  const std::string marks = path_ + ".sent";
  marks_ = ::open(marks.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kReadableByAll);
  if (marks_ < 0) throw IoError("cannot open '" + marks + "': " + std::strerror(errno));
  if (first_step > 0) load_marks();
  file_.reset();
  rewind(first_step, step_of);
  file_ = std::make_unique<AppendFile>(path_);
  save_marks();
  count_unsent();
}

Outbox::~Outbox() {
  ::close(marks_);
}

void Outbox::flush(Flush how) {
  file_->flush(how);
  flushed_ = true;
  if (how == Flush::kDurable && ::fdatasync(marks_) != 0) {
    throw IoError("cannot sync '" + path_ + ".sent': " + std::strerror(errno));
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
  in.seekg(static_cast<std::streamoff>(done_));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line) && !in.eof() && take(lines, line);) {
    lines.push_back(line);
  }
  return lines;
}

void Outbox::sending(const std::vector<std::string>& lines) {
  const uint64_t end = done_ + bytes_of(lines);
  if (end <= seen_) return;
  seen_ = end;
  save_marks();
}

void Outbox::done(const std::vector<std::string>& lines) {
  done_ += bytes_of(lines);
  seen_ = std::max(seen_, done_);
  unsent_ -= std::min(unsent_, lines.size());
  save_marks();
}

void Outbox::load_marks() {
  char text[64] = {};
  if (::pread(marks_, text, sizeof text - 1, 0) < 0) return;
  unsigned long long done = 0, seen = 0;
  if (std::sscanf(text, "%20llu %20llu", &done, &seen) != 2) return;
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path_, error);
  if (error || done > seen || seen > size) return;  // of another file: all is sent again
  done_ = done;
  seen_ = seen;
}

void Outbox::save_marks() {
  char text[64];
  const int length =
      std::snprintf(text, sizeof text, "%020llu %020llu\n", static_cast<unsigned long long>(done_),
                    static_cast<unsigned long long>(seen_));
  if (::pwrite(marks_, text, static_cast<size_t>(length), 0) != length) {
    throw IoError("cannot write '" + path_ + ".sent': " + std::strerror(errno));
  }
}

void Outbox::rewind(int64_t first_step, const StepOfLine& step_of) {
  std::vector<std::string> kept;
  uint64_t at = 0;
  bool all = true;
  std::ifstream in(path_, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    const bool seen = at < seen_;
    at += line.size() + 1;
    const std::optional<int64_t> step = in.eof() ? std::nullopt : step_of(line);  // eof: torn
    if (first_step > 0 && step && (seen || *step <= first_step)) {
      kept.push_back(line);
    } else {
      all = false;
    }
  }
  if (all) return;
  replace_file(path_, [&](AppendFile& file) {
    for (const std::string& line : kept) file.append(line + '\n');
  });
}

void Outbox::count_unsent() {
  uint64_t at = 0;
  each([&](const std::string& line) {
    if (at >= done_) ++unsent_;
    at += line.size() + 1;
  });
}

}  // namespace accel
