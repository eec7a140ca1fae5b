#include "kernels/memory/disk_swapper.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

namespace accel {
namespace {

constexpr int64_t kBlock = ScratchFile::kBlock;
static_assert(kBlock == kSlabBlock);
/// Large enough for the full speed of a disk.
constexpr int64_t kPieceBytes = 8 << 20;
/// Reads and writes under way at a time.
constexpr size_t kThreads = 4;
/// Prefetched buffers, in those of the largest slab: all of a unit, and a spare one.
constexpr int64_t kMostAhead = 3;

constexpr int64_t blocks(int64_t bytes) {
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

constexpr bool changes(SwapAccess access) {
  return access != SwapAccess::kRead;
}

/// The first block of a buffer, which has one more than it needs.
std::byte* aligned(const at::Tensor& buffer) {
  void* begin = buffer.mutable_data_ptr();
  size_t bytes = buffer.nbytes();
  return static_cast<std::byte*>(std::align(kBlock, 1, begin, bytes));
}

void detach(const c10::Storage& storage) {
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(nullptr, at::kCPU));
  storage.unsafeGetStorageImpl()->set_nbytes(0);
}

}  // namespace

DiskSwapper::DiskSwapper(std::unique_ptr<ScratchFile> file) : file_(std::move(file)) {
  if (file_) queue_.emplace(kThreads);
}

DiskSwapper::~DiskSwapper() {
  queue_.reset();
}

int64_t DiskSwapper::wanted(const Entry& entry, SwapAccess access) {
  return access == SwapAccess::kUpdate ? entry.updated : entry.bytes;
}

int64_t DiskSwapper::take_space(int64_t bytes) {
  const auto fits = std::find_if(free_.begin(), free_.end(),
                                 [&](const Range& range) { return range.bytes >= bytes; });
  if (fits == free_.end()) {
    const int64_t offset = file_ ? file_->grow(bytes) : bytes_;
    bytes_ += bytes;
    return offset;
  }
  const int64_t offset = fits->offset;
  *fits = {fits->offset + bytes, fits->bytes - bytes};
  if (fits->bytes == 0) free_.erase(fits);
  return offset;
}

StateSwapper::Slab DiskSwapper::add(int64_t bytes, int64_t updated) {
  const c10::NoGradGuard no_grad;
  if (updated != bytes && updated % kBlock != 0) throw std::logic_error("a slab's part has blocks");
  // A tensor without memory, until the slab is swapped in.
  at::Tensor tensor = at::empty({0}, at::kByte);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({bytes});
  Entry entry{.storage = tensor.storage(), .content = bytes, .bytes = blocks(bytes)};
  detach(entry.storage);
  entry.updated = blocks(updated);
  entry.offset = take_space(entry.bytes);
  largest_ = std::max(largest_, entry.bytes);
  const size_t id = entries_.size();
  by_storage_.emplace(entry.storage.unsafeGetStorageImpl(), id);
  entries_.push_back(std::move(entry));
  return {id, std::move(tensor)};
}

void DiskSwapper::remove(size_t slab) {
  Entry& entry = entries_[slab];
  for (const std::future<void>& piece : entry.reading) piece.wait();
  for (const std::future<void>& piece : entry.writing) piece.wait();
  use(slab);
  if (entry.bytes > 0) free_.push_back({entry.offset, entry.bytes});
  by_storage_.erase(entry.storage.unsafeGetStorageImpl());
  entry = {};
}

void DiskSwapper::use(size_t slab) {
  for (Unused* unused : {&ahead_, &behind_}) {
    const auto found = std::find(unused->slabs.begin(), unused->slabs.end(), slab);
    if (found == unused->slabs.end()) continue;
    unused->slabs.erase(found);
    unused->bytes -= entries_[slab].bytes;
  }
}

void DiskSwapper::throw_failure() const {
  if (failure_) std::rethrow_exception(failure_);
}

std::optional<size_t> DiskSwapper::find(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.has_storage()) return std::nullopt;
  const auto found = by_storage_.find(tensor.storage().unsafeGetStorageImpl());
  return found == by_storage_.end() ? std::nullopt : std::optional(found->second);
}

template <class Move>
DiskSwapper::Transfer DiskSwapper::start(int64_t offset, std::byte* data, int64_t bytes,
                                         const Move& move) {
  Transfer out;
  for (int64_t done = 0; file_ && done < bytes; done += kPieceBytes) {
    const auto size = static_cast<size_t>(std::min(kPieceBytes, bytes - done));
    out.push_back(queue_->add(std::packaged_task<void()>(
        [move, at = offset + done, piece = std::span(data + done, size)] { move(at, piece); })));
  }
  return out;
}

void DiskSwapper::wait(Transfer& transfer) {
  Transfer taken = std::exchange(transfer, {});
  for (const std::future<void>& piece : taken) piece.wait();
  try {
    for (std::future<void>& piece : taken) piece.get();
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void DiskSwapper::allocate(Entry& entry) const {
  const c10::NoGradGuard no_grad;
  entry.buffer = at::empty({entry.bytes + kBlock}, at::kByte);
  entry.data = aligned(entry.buffer);
  entry.loaded = 0;
}

std::function<void(int64_t, std::span<std::byte>)> DiskSwapper::reader() const {
  return [file = file_.get()](int64_t at, std::span<std::byte> to) { file->read(at, to); };
}

void DiskSwapper::load(Entry& entry, int64_t until) {
  if (entry.loaded >= until) return;
  const int64_t from = std::exchange(entry.loaded, until);
  read_ += until - from;
  Transfer more = start(entry.offset + from, entry.data + from, until - from, reader());
  std::move(more.begin(), more.end(), std::back_inserter(entry.reading));
}

void DiskSwapper::store(Entry& entry, int64_t until) {
  written_ += until;
  entry.is_written = true;
  entry.writing =
      start(entry.offset, entry.data, until,
            [file = file_.get()](int64_t at, std::span<std::byte> from) { file->write(at, from); });
}

void DiskSwapper::prefetch(size_t slab, SwapAccess access) {
  throw_failure();
  Entry& entry = entries_[slab];
  if (access == SwapAccess::kOverwrite) return;
  if (!entry.buffer.defined()) {
    trim(ahead_, kMostAhead * largest_);
    allocate(entry);
    ahead_.slabs.push_back(slab);
    ahead_.bytes += entry.bytes;
  }
  load(entry, wanted(entry, access));
}

void DiskSwapper::swap_in(size_t slab, SwapAccess access) {
  throw_failure();
  Entry& entry = entries_[slab];
  if (!entry.buffer.defined()) allocate(entry);
  if (entry.users == 0) use(slab);
  if (changes(access)) wait(entry.writing);
  if (access == SwapAccess::kOverwrite) {
    wait(entry.reading);
    entry.loaded = entry.bytes;
    entry.changes.clear();
  }
  load(entry, wanted(entry, access));
  wait(entry.reading);
  if (entry.users++ == 0) {
    c10::StorageImpl* storage = entry.storage.unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(c10::DataPtr(entry.data, at::kCPU));
    storage->set_nbytes(static_cast<size_t>(entry.content));
  }
  if (entry.changes.empty()) return;
  wait(entry.writing);
  entry.differs = true;
  for (const std::function<void()>& change : std::exchange(entry.changes, {})) change();
}

void DiskSwapper::swap_out(size_t slab, SwapAccess access) {
  Entry& entry = entries_[slab];
  if (changes(access)) {
    store(entry, wanted(entry, access));
    entry.differs = false;
  }
  if (--entry.users > 0) return;
  detach(entry.storage);
  if (!entry.is_written || entry.differs) return release(entry);
  behind_.slabs.push_back(slab);
  behind_.bytes += entry.bytes;
  trim(behind_, largest_ + largest_ / 2);
}

void DiskSwapper::after_next_swap_in(size_t slab, std::function<void()> change) {
  entries_[slab].changes.push_back(std::move(change));
}

at::Tensor DiskSwapper::read(const at::Tensor& tensor) {
  const std::optional<size_t> slab = find(tensor);
  if (!slab || entries_[*slab].users > 0) return tensor;
  throw_failure();
  const c10::NoGradGuard no_grad;
  Entry& entry = entries_[*slab];
  wait(entry.writing);
  throw_failure();
  const auto size = static_cast<int64_t>(tensor.element_size());
  const int64_t begin = tensor.storage_offset() * size, bytes = tensor.numel() * size;
  const int64_t first = begin / kBlock * kBlock, last = blocks(begin + bytes);
  const at::Tensor buffer = at::empty({last - first + kBlock}, at::kByte);
  std::byte* const data = aligned(buffer);
  Transfer reading = start(entry.offset + first, data, last - first, reader());
  wait(reading);
  read_ += last - first;
  const auto skipped = data - static_cast<std::byte*>(buffer.mutable_data_ptr());
  return buffer.narrow(0, skipped + begin - first, bytes)
      .view(tensor.scalar_type())
      .view(tensor.sizes());
}

void DiskSwapper::release(Entry& entry) {
  entry.buffer.reset();
  entry.data = nullptr;
  entry.loaded = 0;
  entry.is_written = entry.differs = false;
}

/// Called from destructors, which do not throw.
void DiskSwapper::trim(Unused& unused, int64_t most) {
  while (unused.bytes > most && (most == 0 || unused.slabs.size() > 1)) {
    Entry& entry = entries_[unused.slabs.front()];
    use(unused.slabs.front());
    try {
      wait(entry.reading);
      wait(entry.writing);
    } catch (const std::exception&) {  // kept by wait()
    }
    release(entry);
  }
}

void DiskSwapper::drain() {
  trim(behind_, 0);
  throw_failure();
}

}  // namespace accel
