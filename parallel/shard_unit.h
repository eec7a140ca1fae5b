// A unit of sharded parameters: gathered, freed and reduced together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/api/parameter.h"
#include "core/api/state_swapper.h"
#include "parallel/canonical_order.h"
#include "parallel/communicator.h"
#include "parallel/fp8/cast_weights.h"

namespace accel {

/// The groups over which the parameters of a unit are divided and repeated.
struct ShardGroups {
  Communicator* shard = nullptr;      ///< its ranks hold different rows
  Communicator* replicate = nullptr;  ///< its ranks hold the same rows
  Axis axis = Axis::kShard;           ///< of `shard`
};

/// Where the rows of a rank and their gradients are.
struct ShardHome {
  bool on_host = false;  ///< in memory of the host, pinned, instead of the model's device
  std::shared_ptr<StateSwapper> swapper = {};  ///< null: in memory; else on_host unless on the CPU
};

struct ReduceOptions {
  std::optional<at::ScalarType> dtype = {};  ///< null: that of each parameter
  bool canonical = false;                    ///< add ranks by the tree of CanonicalOrder
};

/// Parameters divided by rows (dimension 0) over the ranks of a group, as torch.chunk divides them.
/// The tensors of the model keep their identity: while the unit is unsharded they hold the whole
/// weights, else no memory. The rows of all parameters lie in one buffer, each rank's padded to the
/// same size, so that a gather is one collective and a reduction one per type of gradients
/// (Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023). All ranks of the
/// groups call the same, in the same order.
class ShardUnit {
 public:
  /// `parameters` are leaf tensors, contiguous and with at least one dimension. Copies this
  /// rank's rows and leaves the unit resharded; deferred parameters get memory one after another.
  ShardUnit(const std::vector<Parameter>& parameters, const CastWeights& cast, ShardGroups groups,
            const ReduceOptions& reduce, ShardHome home = {});

  /// The rows of this rank, in the order of the constructor's parameters: leaf tensors that require
  /// gradients as the model's do.
  const std::vector<Parameter>& shards() const { return shards_; }
  /// The model's tensors that require gradients.
  const std::vector<at::Tensor>& trained() const { return trained_; }

  /// The type of the whole autocast weights from the next unshard() on; null: their own. A change
  /// reshards the unit; no autograd graph may have its tensors.
  void set_compute_dtype(std::optional<at::ScalarType> dtype);
  /// Whether set_compute_dtype(dtype) would change a tensor.
  bool changes_compute_dtype(std::optional<at::ScalarType> dtype) const {
    return has_autocast_weights_ && dtype != compute_dtype_;
  }

  /// How many weights have CastWeights::fp8.
  int64_t num_fp8_weights() const;
  /// The largest magnitudes of this rank's rows of these, float32 [num_fp8_weights()].
  at::Tensor fp8_amaxes() const;
  /// Sets the magnitudes of the whole weights, which the next unshard() needs for scales.
  void set_fp8_amaxes(const at::Tensor& amaxes);
  /// The ranks that divide the parameters.
  Communicator& group() const { return *groups_.shard; }

  bool is_unsharded() const { return unsharded_; }
  /// An all-gather has been started and not been waited for.
  bool is_unsharding() const { return gather_ != nullptr; }
  /// Starts to swap the rows in for the next start_unshard().
  void prefetch() const;
  /// Starts the all-gather, unless the unit is unsharded or it is under way.
  void start_unshard();
  /// Returns when the model's tensors hold the whole weights.
  void unshard();
  /// Frees the whole weights; waits for an all-gather that is under way.
  void reshard();
  /// The rows have changed: the next unshard() reads them, into the same memory.
  void invalidate();

  /// Call after each accumulation into the gradient of trained()[i]: gradients of autocast weights
  /// are summed in the type of the rows.
  void on_gradient(size_t i);
  /// Takes the gradients of trained(), in the types of the rows; undefined where there is none.
  Gradients take_gradients();
  /// Gives gradients of trained() back.
  void put_gradients(const Gradients& gradients);
  /// Starts the sum over all ranks of the gradients of the model's tensors, and drops those
  /// gradients.
  void start_reduce();
  /// Adds the sums to the gradients of shards(). A gradient that no rank had stays undefined.
  void finish_reduce();
  /// Of the model.
  at::Device device() const { return device_.device(); }
  bool is_reducing() const { return reducing_; }
  /// The slab of the gradients of shards(); none in memory.
  std::optional<size_t> gradient_slab() const { return gradients_.slab(); }
  /// Of a swapped unit, the squared norms of the gradients of shards() since finish_reduce(),
  /// float64 and 0-d; undefined where there is none.
  const std::vector<at::Tensor>& gradient_squares() const { return squares_; }

 private:
  /// A parameter. Offsets are in bytes.
  struct Item {
    at::Tensor whole;      ///< the model's tensor
    at::Tensor values;     ///< alias of `whole` without autograd's version counter
    at::ScalarType dtype;  ///< of the rows
    bool is_cast;          ///< an autocast weight
    bool is_trained;
    int64_t rows;             ///< of the whole tensor
    int64_t row_size;         ///< elements
    int64_t offset = 0;       ///< of this rank's rows in rows_
    int64_t sent_offset = 0;  ///< of a rank's rows in the all-gather
    at::Tensor gradient;      ///< of an autocast weight: the sum so far, or undefined
    std::shared_ptr<GatheredWeight> fp8 = {};  ///< null: not of CastWeights::fp8
    at::Tensor amax = {};                      ///< of the whole weight, float32 []
    at::Tensor scale = {};                     ///< of the fp8 values that are sent, float32 []
  };

  /// The reduction of the gradients of one type. Offsets are in elements.
  struct Reduction {
    at::ScalarType dtype;
    std::vector<size_t> items = {};
    std::vector<int64_t> offsets = {};  ///< of the items' gradients in a rank's part
    int64_t elements = 0;               ///< of a rank's part, without the flags
    at::Tensor sent = {};     ///< [ranks, elements + items], followed by a flag per gradient
    at::Tensor reduced = {};  ///< [elements + items]; canonical: [ranks, elements + items]
    std::unique_ptr<Pending> pending = {};
  };

  void add(const Parameter& parameter, bool is_cast);
  /// Lays the items out, trained ones first, with these types; returns the bytes of all, and of the
  /// trained ones in `trained`.
  int64_t place(int64_t Item::*offset, bool gathered, int64_t& trained);
  void make_buffers();
  void divide(const std::vector<Parameter>& parameters);
  /// Gives the model's tensor this type and no memory.
  static void replace_whole(Item& item, at::ScalarType dtype);
  /// The layout of the all-gather, and tensors of its types.
  void lay_out();
  void add_reduction(size_t item);
  void drop_unshard();
  void end_gather();
  int64_t ranks() const { return groups_.shard->world(); }
  /// Elements of the rows of a rank, with padding.
  int64_t padded(const Item& item) const;
  /// The type of the whole weight.
  at::ScalarType whole_dtype(const Item& item) const;
  bool sends_fp8(const Item& item) const { return item.fp8 && compute_dtype_; }
  /// The type of the rows in the all-gather.
  at::ScalarType sent_dtype(const Item& item) const;
  /// This rank's part of the all-gather: rows_, or a copy where the model is, with autocast
  /// weights cast.
  at::Tensor sent_rows();
  /// This rank's rows of a parameter, with padding.
  at::Tensor rows_of(const Item& item) const;
  /// Copies from the gather buffer to the model's tensors.
  void copy_out() const;
  /// The gradient of the model's tensor, or undefined.
  at::Tensor gradient_of(const Item& item) const;
  /// Copies a gradient, or zeros for an undefined one, to a buffer [ranks, padded(item)].
  static void copy_rows_in(const Item& item, const at::Tensor& gradient, const at::Tensor& to);
  /// Copies the gradients of the model's tensors to the buffer to reduce.
  void copy_in(Reduction& reduction);
  void add_sums(const Reduction& reduction);
  /// The first gradient of a shard.
  at::Tensor gradient_from(const Item& item, const at::Tensor& sum) const;
  bool has_gradients() const;
  void square_gradients();

  ShardGroups groups_;
  ReduceOptions reduce_;
  ShardHome home_;
  at::TensorOptions device_;  ///< bytes where the model is
  std::optional<at::ScalarType> compute_dtype_;
  bool has_autocast_weights_ = false;
  std::vector<Item> items_;
  std::vector<Parameter> shards_;
  std::vector<at::Tensor> trained_;
  std::vector<size_t> trained_items_;
  std::vector<Reduction> reductions_;
  int64_t sent_bytes_ = 0;  ///< of a rank's part of the all-gather
  StateBuffer rows_;        ///< this rank's rows, each parameter's padded
  StateBuffer gradients_;   ///< of swapped shards, at the offsets of the trained rows
  std::vector<at::Tensor> squares_;
  at::Tensor sent_;      ///< uint8 [sent_bytes_], during an all-gather
  at::Tensor gathered_;  ///< uint8 [ranks, sent_bytes_], during an all-gather
  std::unique_ptr<Pending> gather_;
  bool unsharded_ = false;
  bool reducing_ = false;
};

}  // namespace accel
