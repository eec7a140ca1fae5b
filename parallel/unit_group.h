// The sharded parameters of a block: those of its experts are divided over fewer ranks.
#pragma once

#include <memory>
#include <optional>
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
  UnitGroup(const std::vector<Parameter>& parameters, const CastWeights& cast, const Mesh& mesh,
            const ReduceOptions& reduce, const ShardHome& home);

  const std::vector<Parameter>& shards() const { return shards_; }
  const std::vector<at::Tensor>& trained() const { return trained_; }
  const std::vector<std::unique_ptr<ShardUnit>>& units() const { return units_; }
  void set_compute_dtype(std::optional<at::ScalarType> dtype) {
    each(&ShardUnit::set_compute_dtype, dtype);
  }
  bool changes_compute_dtype(std::optional<at::ScalarType> dtype) const {
    return count_of(&ShardUnit::changes_compute_dtype, dtype) > 0;
  }
  bool is_unsharded() const { return count_of(&ShardUnit::is_unsharded) == units_.size(); }
  void prefetch() const { each(&ShardUnit::prefetch); }
  void start_unshard() { each(&ShardUnit::start_unshard); }
  void unshard() { each(&ShardUnit::unshard); }
  void reshard() { each(&ShardUnit::reshard); }
  void invalidate() { each(&ShardUnit::invalidate); }
  void on_gradient(size_t i);
  Gradients take_gradients();
  void put_gradients(const Gradients& gradients);
  void start_reduce() { each(&ShardUnit::start_reduce); }
  void finish_reduce() { each(&ShardUnit::finish_reduce); }
  bool is_reducing() const { return count_of(&ShardUnit::is_reducing) > 0; }
  at::Device device() const { return units_.front()->device(); }
  std::vector<at::Tensor> gradient_squares() const;

 private:
  template <class Member, class... Arguments>
  void each(Member call, const Arguments&... arguments) const {
    for (const auto& unit : units_) ((*unit).*call)(arguments...);
  }
  /// The units for which it holds.
  template <class Member, class... Arguments>
  size_t count_of(Member holds, const Arguments&... arguments) const {
    size_t count = 0;
    for (const auto& unit : units_) count += ((*unit).*holds)(arguments...) ? 1 : 0;
    return count;
  }

  std::vector<std::unique_ptr<ShardUnit>> units_;
  std::vector<Parameter> shards_;
  std::vector<at::Tensor> trained_;
};

}  // namespace accel
