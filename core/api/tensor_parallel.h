// Tensor parallelism: how the parameters of a model are divided over ranks, and the collectives
// between its layers (Shoeybi et al., "Megatron-LM", 2019; Korthikanti et al., "Reducing Activation
// Recomputation in Large Transformer Models", 2022, for sequence parallelism).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/api/ranks.h"

namespace accel {

/// How the ranks of the tensor axis hold the parameters of a layer; the names are those of
/// transformers' tp_plan. Adapters of LoRA are divided with their layer.
enum class TensorStyle {
  /// By output features: rows of the weight and of the bias. Its input comes from enter().
  kColwise,
  /// By input features: columns of the weight. Its output, without the bias, goes to leave().
  kRowwise,
  /// By rows of the table, the vocabulary. Rows of other ranks are zero; the output goes to
  /// leave().
  kEmbeddingRowwise,
  /// Whole, and used with activations that are divided: gradients are summed over the ranks.
  kReplicatedWithGradAllReduce,
  /// Whole, and used with activations that are divided under sequence parallelism: gradients are
  /// then summed over the ranks.
  kSequenceParallel,
};

/// The style of one layer or of several.
struct TensorPlanEntry {
  std::string layer;  ///< pattern of module names: "model.layers.*.mlp.up_proj"
  TensorStyle style;
  /// Of kColwise: equal blocks of rows, each divided, such as the 3 of a fused qkv projection.
  int64_t blocks = 1;
};

/// Parameters of layers without an entry are whole, and have the same gradients on all ranks.
using TensorPlan = std::vector<TensorPlanEntry>;

/// Restores the state of random generators when it ends.
class RandomScope {
 public:
  virtual ~RandomScope() = default;
};

/// The ranks that share one copy of a model's layers, as its forward pass uses them. All ranks call
/// the same, in the same order, with the same samples. Activations are [batch, sequence, features].
class TensorRanks {
 public:
  TensorRanks(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  virtual ~TensorRanks() = default;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }

  /// Whether activations outside of enter() and leave() are parts of the sequence: with sequence
  /// parallelism, and only while gradients are enabled.
  virtual bool divides_sequence() const = 0;
  /// The input of layers divided by output features, on all ranks: `x`, whose gradients are summed
  /// over the ranks, or the parts of the sequence gathered.
  virtual at::Tensor enter(const at::Tensor& x) const = 0;
  /// The sum over all ranks of the outputs of layers divided by input features, or this rank's part
  /// of the sequence of that sum.
  virtual at::Tensor leave(const at::Tensor& x) const = 0;
  /// Concatenates the last dimension, of `size` elements together and divided as torch.chunk
  /// divides it.
  virtual at::Tensor gather_features(const at::Tensor& x, int64_t size) const = 0;
  /// Element-wise and without gradients; the same bits on all ranks.
  virtual at::Tensor reduce(const at::Tensor& x, Reduce how) const = 0;
  /// A random stream of this rank on the device, for dropout of divided activations, until the
  /// result ends. It follows from the stream that all ranks share, which it advances equally.
  virtual std::unique_ptr<RandomScope> own_random_stream(at::Device device) const = 0;

  /// `length` rounded up so that each rank gets an equal part of the sequence.
  int64_t padded_length(int64_t length) const {
    return divides_sequence() ? (length + size_ - 1) / size_ * size_ : length;
  }
  /// This rank's part of a whole sequence of padded_length(), along `dim`: a view; all of it where
  /// the sequence is not divided.
  at::Tensor own_part(const at::Tensor& x, int64_t dim) const {
    if (!divides_sequence()) return x;
    const int64_t part = x.size(dim) / size_;
    return x.narrow(dim, rank_ * part, part);
  }

 private:
  int64_t rank_;
  int64_t size_;
};

/// A vocabulary whose rows the ranks divide as torch.chunk divides them.
struct DividedVocabulary {
  const TensorRanks* ranks = nullptr;  ///< null: one process has all rows
  int64_t size = 0;                    ///< over all ranks

  /// The first row of this rank.
  int64_t first() const {
    return ranks ? (size + ranks->size() - 1) / ranks->size() * ranks->rank() : 0;
  }
};

/// A model that supports tensor parallelism. It gets its ranks by ModelContext::tensor and creates
/// whole parameters, which are divided after its construction.
class TensorParallel {
 public:
  virtual ~TensorParallel() = default;
  /// For `ranks` ranks. Throws Error (kRecipe) for sizes that these cannot divide. Patterns match
  /// at least one layer each.
  virtual TensorPlan tensor_plan(int64_t ranks) const = 0;
  /// Of the rows of LanguageModel::head_weight().
  virtual DividedVocabulary vocabulary() const = 0;
};

}  // namespace accel
