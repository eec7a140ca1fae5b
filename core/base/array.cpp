#include "core/base/array.h"

#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

namespace accel {
namespace {

struct DtypeInfo {
  const char* name;
  size_t size;
};

constexpr DtypeInfo kDtypes[] = {{"BOOL", 1}, {"U8", 1},   {"I8", 1},  {"I16", 2}, {"U16", 2},
                                 {"F16", 2},  {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},
                                 {"I64", 8},  {"U64", 8},  {"F64", 8}};

constexpr std::align_val_t kAlignment{64};
// Bytes of reused blocks: malloc is fast below the first, and the second bounds the memory kept.
constexpr size_t kMinCached = 1 << 10;
constexpr size_t kMaxCached = 1 << 20;

/// Free list of the last few released blocks, for arrays of the same size: samples and batches
/// repeat their sizes, and malloc trims its heap when a block as large as a batch is freed.
/// Thread-safe.
class BlockCache {
 public:
  static BlockCache& instance() {
    static auto* const made = new BlockCache;  // leaked: arrays may outlive static destructors
    return *made;
  }

  std::byte* take(size_t bytes) {
    if (is_cached(bytes)) {
      const std::lock_guard lock(mutex_);
      for (Block& block : blocks_) {
        if (block.bytes == bytes) return std::exchange(block, {}).memory;
      }
    }
    return static_cast<std::byte*>(::operator new(bytes, kAlignment));
  }

  void release(std::byte* memory, size_t bytes) {
    Block old = {memory, bytes};
    if (is_cached(bytes)) {
      const std::lock_guard lock(mutex_);
      std::swap(old, blocks_[next_]);
      next_ = (next_ + 1) % blocks_.size();
    }
    ::operator delete(old.memory, kAlignment);
  }

 private:
  struct Block {
    std::byte* memory = nullptr;
    size_t bytes = 0;
  };

  static bool is_cached(size_t bytes) {
#ifdef ACCEL_ASAN
    return false;  // keeps use-after-free detectable
#endif
    return bytes >= kMinCached && bytes <= kMaxCached;
  }

  std::mutex mutex_;
  std::array<Block, 8> blocks_;
  size_t next_ = 0;  ///< the oldest block
};

}  // namespace

size_t size_of(DType type) {
  return kDtypes[static_cast<size_t>(type)].size;
}

const char* name_of(DType type) {
  return kDtypes[static_cast<size_t>(type)].name;
}

int64_t count_of(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0) throw std::invalid_argument("negative size in a shape");
    if (__builtin_mul_overflow(count, size, &count)) {
      throw std::overflow_error("a shape holds more elements than 63 bits can count");
    }
  }
  return count;
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (const int64_t size : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  return out + "]";
}

Array::Array(DType type, Shape shape)
    : type_(type), shape_(std::move(shape)), count_(count_of(shape_)) {
  const size_t size = std::max<size_t>(bytes(), 1);
  std::byte* const memory = BlockCache::instance().take(size);
  data_ = memory;
  owner_ = std::shared_ptr<std::byte>(
      memory, [size](std::byte* block) { BlockCache::instance().release(block, size); });
}

Array::Array(DType type, Shape shape, const std::byte* data, std::shared_ptr<const void> owner)
    : type_(type),
      shape_(std::move(shape)),
      count_(count_of(shape_)),
      data_(data),
      owner_(std::move(owner)) {}

bool Array::is_only_owner() const {
  if (owner_.use_count() != 1) return false;
#ifndef ACCEL_TSAN  // which does not support fences
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return true;
}

Array Array::label(int64_t value) {
  return of<int64_t>(DType::kI64, {}, std::span<const int64_t>(&value, 1));
}

}  // namespace accel
