// Training state that is swapped out of memory while nothing uses it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace accel {

/// What is done with a slab while it is in memory.
enum class SwapAccess {
  kRead,       ///< changes are dropped
  kUpdate,     ///< its first part is changed, and the rest is not accessed
  kChange,     ///< all of it may be changed
  kOverwrite,  ///< all of it is written before it is read
};

/// A tier below memory. A slab is a buffer of bytes there, such as the parameters of a block or the
/// optimizer's state for them. A tensor in it keeps its identity, shape and type; between swap_in()
/// and swap_out() its storage has the contents, else no memory: do not access it then. For one
/// thread. Errors of I/O are IoErrors, of writes perhaps in a later call.
class StateSwapper {
 public:
  virtual ~StateSwapper() = default;

  struct Slab {
    size_t id;
    at::Tensor bytes;  ///< uint8 [bytes], swapped out
  };

  /// Reserves space in the tier; kUpdate changes the first `updated` bytes, a multiple of
  /// kSlabBlock or all. Throws IoError where there is too little.
  virtual Slab add(int64_t bytes, int64_t updated) = 0;
  /// The slab is swapped out. Its space is used again.
  virtual void remove(size_t slab) = 0;
  /// The slab with the storage of this tensor.
  virtual std::optional<size_t> find(const at::Tensor& tensor) const = 0;
  /// Starts to read what swap_in() with this access will want.
  virtual void prefetch(size_t slab, SwapAccess access) = 0;
  /// Calls nest.
  virtual void swap_in(size_t slab, SwapAccess access) = 0;
  /// With the access of the swap_in(). Starts to write what has changed.
  virtual void swap_out(size_t slab, SwapAccess access) = 0;
  /// Calls `change` after the next swap_in() that is not kOverwrite, in the order of these calls;
  /// kOverwrite and remove() drop it.
  virtual void after_next_swap_in(size_t slab, std::function<void()> change) = 0;
  /// The tensor, or a copy of one that is swapped out.
  virtual at::Tensor read(const at::Tensor& tensor) = 0;
  /// Waits for writes and frees their buffers: before passes, which need the memory.
  virtual void drain() {}
};

inline constexpr int64_t kSlabBlock = 4096;

/// Swaps a slab in during its lifetime.
class SwapScope {
 public:
  /// `swapper` null or no slab: does nothing.
  SwapScope(StateSwapper* swapper, std::optional<size_t> slab, SwapAccess access)
      : swapper_(slab ? swapper : nullptr), slab_(slab.value_or(0)), access_(access) {
    if (swapper_) swapper_->swap_in(slab_, access_);
  }
  ~SwapScope() {
    if (swapper_) swapper_->swap_out(slab_, access_);
  }
  SwapScope(const SwapScope&) = delete;
  SwapScope& operator=(const SwapScope&) = delete;

 private:
  StateSwapper* swapper_;
  size_t slab_;
  SwapAccess access_;
};

/// A buffer of bytes in memory, or swapped where there is a swapper.
class StateBuffer {
 public:
  StateBuffer() = default;
  StateBuffer(const StateBuffer&) = delete;
  StateBuffer& operator=(const StateBuffer&) = delete;
  StateBuffer(StateBuffer&& from) noexcept { *this = std::move(from); }
  StateBuffer& operator=(StateBuffer&& from) noexcept {
    std::swap(swapper_, from.swapper_);
    std::swap(slab_, from.slab_);
    std::swap(bytes_, from.bytes_);
    return *this;
  }
  /// In memory.
  explicit StateBuffer(at::Tensor bytes) : bytes_(std::move(bytes)) {}
  /// As StateSwapper::add().
  StateBuffer(std::shared_ptr<StateSwapper> swapper, int64_t bytes, int64_t updated)
      : swapper_(std::move(swapper)) {
    StateSwapper::Slab slab = swapper_->add(bytes, updated);
    slab_ = slab.id;
    bytes_ = std::move(slab.bytes);
  }
  ~StateBuffer() {
    if (swapper_) swapper_->remove(slab_);
  }

  bool is_swapped() const { return swapper_ != nullptr; }
  const at::Tensor& bytes() const { return bytes_; }
  std::optional<size_t> slab() const { return swapper_ ? std::optional(slab_) : std::nullopt; }

  void prefetch(SwapAccess access) const {
    if (swapper_) swapper_->prefetch(slab_, access);
  }
  void swap_in(SwapAccess access) const {
    if (swapper_) swapper_->swap_in(slab_, access);
  }
  void swap_out(SwapAccess access) const {
    if (swapper_) swapper_->swap_out(slab_, access);
  }
  SwapScope scope(SwapAccess access) const { return {swapper_.get(), slab(), access}; }

 private:
  std::shared_ptr<StateSwapper> swapper_;  ///< null: in memory
  size_t slab_ = 0;
  at::Tensor bytes_;
};

}  // namespace accel
