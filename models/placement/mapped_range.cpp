#include "models/placement/mapped_range.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "core/base/error.h"
#include "core/base/parallel.h"
#include "models/placement/block_ring.h"
#include "models/placement/weight_file.h"

namespace accel {
namespace {

constexpr size_t kNeighbourGap = 4096;  // between tensors of one range

uintptr_t page_bytes() {
  static const auto bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

uintptr_t address_of(const std::byte* byte) {
  return reinterpret_cast<uintptr_t>(byte);
}

void advise(std::span<const std::byte> pages, int advice) {
  if (pages.empty()) return;
  ::madvise(const_cast<std::byte*>(pages.data()), pages.size(), advice);
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

/// The mapping that the bytes are in; null: there is none.
const Mapping* find_mapping(const std::map<uintptr_t, Mapping>& mappings,
                            std::span<const std::byte> bytes) {
  const uintptr_t begin = address_of(bytes.data());
  const auto after = mappings.upper_bound(begin);
  if (after == mappings.begin() || begin + bytes.size() > std::prev(after)->second.end) {
    return nullptr;
  }
  return &std::prev(after)->second;
}

const Mapping& mapping_of(const std::map<uintptr_t, Mapping>& mappings,
                          std::span<const std::byte> bytes) {
  const Mapping* const found = find_mapping(mappings, bytes);
  if (!found) throw std::invalid_argument("the bytes belong to no mapped file");
  return *found;
}

std::shared_ptr<const WeightFile> opened(const std::string& path) {
  try {
    return std::make_shared<const WeightFile>(path);
  } catch (const IoError&) {
    throw std::invalid_argument("the mapped file cannot be opened");
  }
}

/// `bytes`, rounded up to blocks of a file.
size_t blocks_of(int64_t bytes) {
  return static_cast<size_t>((bytes + WeightFile::kBlock - 1) / WeightFile::kBlock *
                             WeightFile::kBlock);
}

/// Pieces of ranges, of which threads take one after another.
class PieceQueue {
 public:
  PieceQueue(const std::vector<MappedRange>& ranges, int64_t limit) {
    for (const MappedRange& range : ranges) {
      for (int64_t at = 0; at < range.block_bytes() && bytes_ < limit; at += kPiece) {
        const int64_t end = range.offset + static_cast<int64_t>(range.bytes.size());
        const int64_t offset = range.block_offset() + at;
        pieces_.push_back({range.file.get(), offset, std::min(kPiece, end - offset)});
        bytes_ += pieces_.back().bytes;
      }
    }
  }

  int64_t bytes() const { return bytes_; }
  void read_some(std::span<std::byte> to) {
    for (size_t i = next_++; i < pieces_.size(); i = next_++) {
      const Piece& piece = pieces_[i];
      piece.file->read(piece.offset, to.first(blocks_of(piece.bytes)), piece.bytes);
    }
  }

 private:
  static constexpr auto kPiece = static_cast<int64_t>(kReadPiece);
  struct Piece {
    const WeightFile* file;
    int64_t offset, bytes;
  };
  std::vector<Piece> pieces_;
  std::atomic<size_t> next_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace

int64_t MappedRange::block_offset() const {
  return offset / WeightFile::kBlock * WeightFile::kBlock;
}

int64_t MappedRange::block_bytes() const {
  const int64_t end = offset + static_cast<int64_t>(bytes.size());
  return static_cast<int64_t>(blocks_of(end - block_offset()));
}

std::span<const std::byte> MappedRange::whole_pages() const {
  const uintptr_t address = address_of(bytes.data());
  const uintptr_t begin = (address + page_bytes() - 1) / page_bytes() * page_bytes();
  const uintptr_t end = (address + bytes.size()) / page_bytes() * page_bytes();
  if (begin >= end) return {};
  return bytes.subspan(begin - address, end - begin);
}

void MappedRange::expect_random_access() const {
  advise(whole_pages(), MADV_RANDOM);
}

void MappedRange::drop() const {
  const std::span<const std::byte> pages = whole_pages();
  if (pages.empty()) return;
  advise(pages, MADV_DONTNEED);
  file->evict(offset + (pages.data() - bytes.data()), static_cast<int64_t>(pages.size()));
}

std::vector<bool> are_mapped(const std::vector<std::span<const std::byte>>& bytes) {
  const std::map<uintptr_t, Mapping> mappings = file_mappings();
  std::map<std::string, bool> opens;
  std::vector<bool> out;
  for (const auto& item : bytes) {
    const Mapping* const mapping = find_mapping(mappings, item);
    if (mapping && !opens.contains(mapping->path)) {
      opens[mapping->path] = static_cast<bool>(open_fd(mapping->path, O_RDONLY));
    }
    out.push_back(item.empty() || (mapping && opens[mapping->path]));
  }
  return out;
}

std::vector<MappedRange> mapped_ranges(std::vector<std::span<const std::byte>> bytes) {
  std::erase_if(bytes, [](const auto& item) { return item.empty(); });
  std::sort(bytes.begin(), bytes.end(),
            [](const auto& a, const auto& b) { return a.data() < b.data(); });
  const std::map<uintptr_t, Mapping> mappings = file_mappings();
  std::map<uintptr_t, std::shared_ptr<const WeightFile>> files;
  std::vector<MappedRange> out;
  for (const auto& item : bytes) {
    const Mapping& mapping = mapping_of(mappings, item);
    auto& file = files[mapping.begin];
    if (!file) file = opened(mapping.path);
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
  for (const MappedRange& range : ranges) range.drop();
  PieceQueue queue(ranges, limit);
  const BlockRing buffers(static_cast<int64_t>(kReaders * kReadPiece));
  std::vector<std::function<void()>> readers;
  for (size_t i = 0; i < kReaders; ++i) {
    const std::span<std::byte> own(buffers.data() + i * kReadPiece, kReadPiece);
    std::fill(own.begin(), own.end(), std::byte(0));  // has memory before the clock starts
    readers.emplace_back([&queue, own] { queue.read_some(own); });
  }
  const auto begin = std::chrono::steady_clock::now();
  parallel_invoke(true, readers);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(queue.bytes()) / seconds.count();
}

}  // namespace accel
