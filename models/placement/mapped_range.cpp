#include "models/placement/mapped_range.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "core/base/error.h"
#include "core/base/owned_fd.h"

namespace accel {
namespace {

constexpr int kPopulateRead = 22;       // MADV_POPULATE_READ, Linux 5.14
constexpr size_t kNeighbourGap = 4096;  // between tensors of one range
constexpr size_t kRatePiece = size_t{4} << 20;

uintptr_t page_bytes() {
  static const auto bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

uintptr_t address_of(const std::byte* byte) {
  return reinterpret_cast<uintptr_t>(byte);
}

/// A line of /proc/self/maps.
struct Mapping {
  uintptr_t begin = 0, end = 0;
  int64_t offset = 0;
  std::string path;
};

std::map<uintptr_t, Mapping> file_mappings() {
  std::map<uintptr_t, Mapping> out;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    Mapping item;
    std::string permissions, device;
    char dash = 0;
    int64_t inode = 0;
    words >> std::hex >> item.begin >> dash >> item.end >> permissions >> item.offset >> device >>
        std::dec >> inode >> std::ws;
    std::getline(words, item.path);
    if (inode != 0 && item.path.starts_with('/')) out.emplace(item.begin, std::move(item));
  }
  return out;
}

const Mapping& mapping_of(const std::map<uintptr_t, Mapping>& mappings,
                          std::span<const std::byte> bytes) {
  const uintptr_t begin = address_of(bytes.data());
  const auto after = mappings.upper_bound(begin);
  if (after == mappings.begin() || begin + bytes.size() > std::prev(after)->second.end) {
    throw std::invalid_argument("the bytes belong to no mapped file");
  }
  return std::prev(after)->second;
}

}  // namespace

void MappedRange::start_reading(size_t first, size_t count) const {
  ::readahead(file->get(), offset + static_cast<int64_t>(first), count);
}

void MappedRange::read(size_t first, size_t count) const {
  const uintptr_t begin = address_of(bytes.data()) + first;
  const uintptr_t from = begin / page_bytes() * page_bytes();
  const size_t length = begin + count - from;
  if (::madvise(reinterpret_cast<void*>(from), length, kPopulateRead) == 0) return;
  for (uintptr_t at = begin; at < begin + count; at += page_bytes()) {
    static_cast<void>(*reinterpret_cast<const volatile std::byte*>(at));
  }
}

void MappedRange::drop() const {
  // Pages at the ends may hold bytes of others.
  const uintptr_t begin =
      (address_of(bytes.data()) + page_bytes() - 1) / page_bytes() * page_bytes();
  const uintptr_t end = (address_of(bytes.data()) + bytes.size()) / page_bytes() * page_bytes();
  if (begin >= end) return;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  const auto skipped = static_cast<int64_t>(begin - address_of(bytes.data()));
  ::posix_fadvise(file->get(), offset + skipped, static_cast<int64_t>(end - begin),
                  POSIX_FADV_DONTNEED);
}

std::vector<MappedRange> mapped_ranges(std::vector<std::span<const std::byte>> bytes) {
  std::erase_if(bytes, [](const auto& item) { return item.empty(); });
  std::sort(bytes.begin(), bytes.end(),
            [](const auto& a, const auto& b) { return a.data() < b.data(); });
  const std::map<uintptr_t, Mapping> mappings = file_mappings();
  std::map<uintptr_t, std::shared_ptr<const OwnedFd>> files;
  std::vector<MappedRange> out;
  for (const auto& item : bytes) {
    const Mapping& mapping = mapping_of(mappings, item);
    auto& file = files[mapping.begin];
    if (!file) {
      file = std::make_shared<const OwnedFd>(open_fd(mapping.path, O_RDONLY));
      if (!*file) throw std::invalid_argument("the mapped file cannot be opened");
    }
    MappedRange* last = out.empty() ? nullptr : &out.back();
    const std::byte* end = last ? last->bytes.data() + last->bytes.size() : nullptr;
    if (last && last->file == file && item.data() <= end + kNeighbourGap) {
      last->bytes = {last->bytes.data(), item.data() + item.size()};
      continue;
    }
    const auto within = static_cast<int64_t>(address_of(item.data()) - mapping.begin);
    out.push_back({item, file, mapping.offset + within});
  }
  return out;
}

double sequential_rate(const std::vector<MappedRange>& ranges, int64_t limit) {
  std::vector<std::byte> buffer(kRatePiece);
  int64_t done = 0;
  for (const MappedRange& range : ranges) range.drop();
  const auto begin = std::chrono::steady_clock::now();
  for (const MappedRange& range : ranges) {
    for (size_t at = 0; at < range.bytes.size() && done < limit; at += kRatePiece) {
      const size_t count = std::min(kRatePiece, range.bytes.size() - at);
      const ssize_t read =
          ::pread(range.file->get(), buffer.data(), count, range.offset + static_cast<int64_t>(at));
      if (read <= 0) throw IoError("cannot read the weights' file");
      done += read;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  for (const MappedRange& range : ranges) range.drop();
  return static_cast<double>(done) / seconds.count();
}

}  // namespace accel
