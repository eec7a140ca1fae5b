// A unit of sharded parameters: gathered, freed and reduced together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/api/parameter.h"
#include "parallel/communicator.h"

namespace accel {

/// The groups over which the parameters of a unit are divided and repeated.
struct ShardGroups {
  Communicator* shard = nullptr;      ///< its ranks hold different rows
  Communicator* replicate = nullptr;  ///< its ranks hold the same rows
};

/// Parameters divided by rows (dimension 0) over the ranks of a group, as torch.chunk divides them.
/// The tensors of the model keep their identity: while the unit is unsharded they hold the whole
/// weights, else no memory. Rows lie in one buffer per type, each rank's padded to the
/// same size, so that a gather and a reduction are one collective each (Rajbhandari et al., "ZeRO",
/// SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023). All ranks of the groups call the same, in the
/// same order.
class ShardUnit {
 public:
  /// `parameters` are leaf tensors, contiguous and with at least one dimension. Copies this
  /// rank's rows and leaves the unit resharded; deferred parameters get memory one after another.
  /// `reduce_dtype` null: that of each gradient.
  ShardUnit(const std::vector<Parameter>& parameters, ShardGroups groups,
            std::optional<at::ScalarType> reduce_dtype);

  /// The rows of this rank, in the order of the constructor's parameters: leaf tensors that require
  /// gradients as the model's do.
  const std::vector<Parameter>& shards() const { return shards_; }
  /// The model's tensors that require gradients.
  const std::vector<at::Tensor>& trained() const { return trained_; }

  bool is_unsharded() const { return unsharded_; }
  /// Starts the all-gather, unless the unit is unsharded or it is under way.
  void start_unshard();
  /// Returns when the model's tensors hold the whole weights.
  void unshard();
  /// Frees the whole weights; waits for an all-gather that is under way.
  void reshard();
  /// The rows have changed: the next unshard() reads them, into the same memory.
  void invalidate();

  /// Starts the sum over all ranks of the gradients of the model's tensors, and drops those
  /// gradients.
  void start_reduce();
  /// Adds the sums to the gradients of shards(). A gradient that no rank had stays undefined.
  void finish_reduce();
  bool is_reducing() const { return reducing_; }

 private:
  /// A parameter: the model's tensor, and where its rows lie in the buffers of its Part.
  struct Item {
    at::Tensor whole;
    at::Tensor values;         ///< alias of `whole` without autograd's version counter
    size_t shard;              ///< index in shards_
    int64_t rows;              ///< of the whole tensor
    int64_t row_size;          ///< elements
    int64_t offset;            ///< of this rank's rows in Part::rows
    int64_t grad_offset = -1;  ///< in a rank's part of the gradient buffer; -1: frozen
  };

  /// The parameters of one type.
  struct Part {
    std::vector<Item> items;
    int64_t elements = 0;       ///< of `rows`
    int64_t grad_elements = 0;  ///< of one rank's gradients, without the flags
    int64_t trained = 0;
    at::Tensor rows;      ///< [elements]: this rank's rows, each parameter's padded
    at::Tensor gathered;  ///< [ranks, elements], during a gather
    std::unique_ptr<Pending> gather;
    at::Tensor sent;     ///< [ranks, grad_elements + trained], during a reduction
    at::Tensor reduced;  ///< [grad_elements + trained]: followed by a flag per gradient
    std::unique_ptr<Pending> reduction;
  };

  void drop_unshard();
  Part& part_of(at::ScalarType dtype);
  void add(const Parameter& parameter);
  void divide(Part& part, const std::vector<Parameter>& parameters);
  int64_t ranks() const { return groups_.shard->world(); }
  /// Copies from the gather buffer to the model's tensors.
  void copy_out(const Part& part) const;
  /// Copies the gradients of the model's tensors to the buffer to reduce.
  void copy_in(Part& part) const;
  void add_sums(const Part& part);

  ShardGroups groups_;
  std::optional<at::ScalarType> reduce_dtype_;
  std::vector<Parameter> shards_;
  std::vector<at::Tensor> trained_;
  std::vector<Part> parts_;
  bool unsharded_ = false;
  bool unsharding_ = false;
  bool reducing_ = false;
};

}  // namespace accel
