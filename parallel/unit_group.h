// The sharded parameters of a block: those of its experts are divided over fewer ranks.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "parallel/mesh.h"
#include "parallel/shard_unit.h"

namespace accel {

/// One ShardUnit over Mesh::shard, and under expert parallelism another one, over
/// Mesh::expert_shard, of the parameters with a placement on Axis::kExpert. They do what ShardUnit
/// says together, in this order.
class UnitGroup {
 public:
  UnitGroup(const std::vector<Parameter>& parameters, const std::set<std::string>& autocast_weights,
            const Mesh& mesh, const ReduceOptions& reduce, const ShardHome& home);

  const std::vector<Parameter>& shards() const { return shards_; }
  const std::vector<at::Tensor>& trained() const { return trained_; }
  void set_compute_dtype(std::optional<at::ScalarType> dtype);
  bool changes_compute_dtype(std::optional<at::ScalarType> dtype) const;
  bool is_unsharded() const;
  void prefetch() const;
  void start_unshard();
  void unshard();
  void reshard();
  void invalidate();
  void on_gradient(size_t i);
  Gradients take_gradients();
  void put_gradients(const Gradients& gradients);
  void start_reduce();
  void finish_reduce();
  bool is_reducing() const;
  at::Device device() const { return units_.front()->device(); }
  std::vector<at::Tensor> gradient_squares() const;

 private:
  std::vector<std::unique_ptr<ShardUnit>> units_;
  std::vector<Parameter> shards_;
  std::vector<at::Tensor> trained_;
};

}  // namespace accel
