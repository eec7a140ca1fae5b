// Parameters laid out in flat buffers that travel between ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "core/batch.h"

namespace accel {

/// One flat buffer: the gradients of some parameters one after another, and behind them a number
/// for each that tells whether it has a gradient.
class Bucket {
 public:
  explicit Bucket(std::vector<NamedTensor> parameters);

  size_t size() const { return parameters_.size(); }
  const NamedTensor& parameter(size_t i) const { return parameters_[i]; }
  const at::Tensor& flat() const { return flat_; }

  /// Copies a gradient in; an undefined one counts as absent.
  void put(size_t i, const at::Tensor& gradient);
  /// The gradients in `flat`, a buffer of this layout, in the parameters' shapes and sharing
  /// memory; undefined where absent. Asks the device once for all.
  std::vector<at::Tensor> get(const at::Tensor& flat) const;
  /// The `i`-th gradient in `flat`, in one dimension and present or not; all flags of presence, 1
  /// for each rank that has it. Both share memory.
  at::Tensor slice(size_t i, const at::Tensor& flat) const;
  at::Tensor flags(const at::Tensor& flat) const;

 private:
  std::vector<NamedTensor> parameters_;
  std::vector<int64_t> offsets_;
  int64_t elements_ = 0;
  at::Tensor flat_;
};

/// The last parameters first, as backward reaches them; a first small bucket so that sums start
/// early. Parameters of one bucket have one type.
std::vector<Bucket> make_buckets(const std::vector<NamedTensor>& parameters, int64_t bucket_bytes);

}  // namespace accel
