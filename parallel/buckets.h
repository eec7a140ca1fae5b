// Gradient buckets: flat communication buffers for several parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "core/api/batch.h"

namespace accel {

/// One flat buffer: the gradients of some parameters, followed by a flag per parameter, 1 if it has
/// a gradient.
class Bucket {
 public:
  explicit Bucket(std::vector<Parameter> parameters);

  /// Of the buffer, in bytes.
  int64_t bytes() const;
  /// Makes the buffer: zeros on the device of the parameters.
  void make_flat();
  /// Lets the buffer be `memory`: bytes() zeros, 1-d, kByte.
  void set_flat(const at::Tensor& memory);

  size_t size() const { return parameters_.size(); }
  const Parameter& parameter(size_t i) const { return parameters_[i]; }
  const at::Tensor& flat() const { return flat_; }

  /// Copies a gradient into the buffer; an undefined one is absent.
  void put(size_t i, const at::Tensor& gradient);
  /// The gradients in `flat`, a buffer of this layout, as views in the parameters' shapes;
  /// undefined where absent. Synchronizes with the device once.
  std::vector<at::Tensor> get(const at::Tensor& flat) const;
  /// View of the `i`-th gradient in `flat`, 1-d, present or not; view of all flags, summed over
  /// ranks.
  at::Tensor slice(size_t i, const at::Tensor& flat) const;
  at::Tensor flags(const at::Tensor& flat) const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<int64_t> offsets_;
  int64_t elements_ = 0;
  at::Tensor flat_;
};

/// kOwn: of each bucket. kLater: by set_flat().
enum class BucketMemory { kOwn, kLater };

/// Parameters in reverse order, as backward reaches them; a small first bucket, so that the
/// all-reduce starts early. Parameters of a bucket have one type.
std::vector<Bucket> make_buckets(const std::vector<Parameter>& parameters, int64_t bucket_bytes,
                                 BucketMemory memory = BucketMemory::kOwn);

}  // namespace accel
