// Deferred initialization: tensors without memory, whose initialization runs later.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace accel {

/// While it exists, CPU tensors of at least kLeastDeferredBytes that this thread makes by empty(),
/// zeros(), ones(), full(), rand() and randn() are deferred: they have sizes and no memory.
/// In-place operators without other tensors, such as normal_(), are recorded with the generator's
/// state and advance the generator as ever, so that all tensors get the same bits as without it;
/// under SkipInit they leave the generator alone. An
/// operator that reads a deferred tensor gives memory to it first. Tensors may outlive it;
/// after it, only materialize() and copy_rows() may read them. Does not nest.
class DeferredInit {
 public:
  DeferredInit();
  ~DeferredInit();
  static bool is_active();
  DeferredInit(const DeferredInit&) = delete;
  DeferredInit& operator=(const DeferredInit&) = delete;

  /// Gives memory to all deferred tensors except those in `kept` that share no storage with others.
  void materialize_except(const std::vector<at::Tensor>& kept) const;

 private:
  c10::impl::IncludeDispatchKeyGuard guard_;
};

/// While it exists, tensors that this thread makes get memory at once, for functions that write to
/// the memory itself.
class DeferredInitOff {
 public:
  DeferredInitOff();

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

inline constexpr size_t kLeastDeferredBytes = 4096;

bool is_deferred(const at::Tensor& tensor);

/// Gives memory to a deferred tensor, and to those that share its storage, and runs what was
/// recorded. Others are left unchanged.
void materialize(const at::Tensor& tensor);

/// Writes rows [first, first + to.size(0)) of a tensor to `to`.
using RowWriter = std::function<void(const at::Tensor& to, int64_t first)>;

/// Calls `write(tensor, 0)`: of a deferred tensor later, and perhaps for some rows only. `write`
/// owns what it reads.
void write_rows(const at::Tensor& tensor, const RowWriter& write);

/// Copies rows [first, first + to.size(0)) of `from` to `to`. Of a deferred tensor that
/// write_rows() fills, writes these rows alone; other deferred tensors get memory.
void copy_rows(const at::Tensor& from, int64_t first, const at::Tensor& to);

/// Moves a deferred tensor. It stays deferred, unless it shares its storage.
void move_deferred(at::Tensor tensor, at::Device device);

}  // namespace accel
