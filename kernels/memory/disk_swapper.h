// Swaps training state to a scratch file.
#pragma once

#include <c10/core/Storage.h>

#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/api/state_swapper.h"
#include "core/base/parallel.h"
#include "core/base/scratch_file.h"

namespace accel {

/// As ZeRO-Infinity (Rajbhandari et al., SC 2021): while a slab is computed with, the next one is
/// read and the one before is written, in pieces on a few threads. Buffers are tensors of the CPU.
/// A slab that is swapped in while it is being written keeps its buffer: what a kRead changes then
/// may be written too.
class DiskSwapper final : public StateSwapper {
 public:
  /// `file` null: space is counted and nothing is read or written, for estimates.
  explicit DiskSwapper(std::unique_ptr<ScratchFile> file);
  /// Waits for I/O and ignores its errors.
  ~DiskSwapper() override;
  DiskSwapper(const DiskSwapper&) = delete;
  DiskSwapper& operator=(const DiskSwapper&) = delete;

  Slab add(int64_t bytes, int64_t updated) override;
  void remove(size_t slab) override;
  std::optional<size_t> find(const at::Tensor& tensor) const override;
  void prefetch(size_t slab, SwapAccess access) override;
  void swap_in(size_t slab, SwapAccess access) override;
  void swap_out(size_t slab, SwapAccess access) override;
  void after_next_swap_in(size_t slab, std::function<void()> change) override;
  at::Tensor read(const at::Tensor& tensor) override;

  void drain() override;
  /// Bytes of the scratch file.
  int64_t disk_bytes() const { return bytes_; }
  /// Bytes read and written so far.
  int64_t read_bytes() const { return read_; }
  int64_t written_bytes() const { return written_; }
  const ScratchFile* file() const { return file_.get(); }

 private:
  using Transfer = std::vector<std::future<void>>;

  /// Offsets and sizes are multiples of ScratchFile::kBlock.
  struct Entry {
    c10::Storage storage;
    int64_t content = 0;  ///< bytes of the storage when it is in memory
    int64_t offset = 0;   ///< in the file
    int64_t bytes = 0;
    int64_t updated = 0;  ///< bytes that kUpdate accesses
    at::Tensor buffer = {};
    std::byte* data = nullptr;  ///< aligned, in `buffer`
    int64_t loaded = 0;         ///< leading bytes of the buffer that are read or being read
    int users = 0;              ///< swap_in() without swap_out()
    bool is_written = false;    ///< by `writing`, which may have ended
    bool differs = false;       ///< from the disk, by `changes`
    Transfer reading = {};
    Transfer writing = {};
    std::vector<std::function<void()>> changes = {};
  };

  struct Range {
    int64_t offset;
    int64_t bytes;
  };

  /// Entries with a buffer and without a user, oldest first.
  struct Unused {
    std::deque<size_t> slabs = {};
    int64_t bytes = 0;
  };

  static int64_t wanted(const Entry& entry, SwapAccess access);
  int64_t take_space(int64_t bytes);
  void allocate(Entry& entry) const;
  std::function<void(int64_t, std::span<std::byte>)> reader() const;
  void load(Entry& entry, int64_t until);
  void store(Entry& entry, int64_t until);
  /// Throws the transfer's error, as do all later calls.
  void wait(Transfer& transfer);
  static void release(Entry& entry);
  /// Frees the oldest of these buffers, beyond `most` bytes.
  void trim(Unused& unused, int64_t most);
  /// Takes the entry from the unused ones.
  void use(size_t slab);
  void throw_failure() const;
  template <class Move>
  Transfer start(int64_t offset, std::byte* data, int64_t bytes, const Move& move);

  std::unique_ptr<ScratchFile> file_;
  std::vector<Entry> entries_;
  std::vector<Range> free_;  ///< of the file
  std::unordered_map<const c10::StorageImpl*, size_t> by_storage_;
  Unused ahead_;                ///< prefetched
  Unused behind_;               ///< being written
  std::exception_ptr failure_;  ///< of a transfer, for all later calls
  int64_t largest_ = 0;         ///< bytes of the largest entry
  int64_t bytes_ = 0;
  int64_t read_ = 0;
  int64_t written_ = 0;
  std::optional<TaskQueue> queue_;  ///< destroyed first
};

}  // namespace accel
