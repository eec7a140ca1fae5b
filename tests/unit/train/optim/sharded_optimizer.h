// Optimizers on shares of parameters, compared with whole ones.
#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/api/optimizer.h"
#include "parallel/share_region.h"
#include "tests/unit/build_component.h"
#include "tests/unit/parallel/ranks.h"

namespace accel {

using NamedShapes = std::vector<std::pair<std::string, Shape>>;
using NamedTensors = std::map<std::string, at::Tensor>;
using Placements = std::vector<Placement>;
/// Of the parameter at this place of the shapes; not called for scalars.
using PlacementsOf = std::function<Placements(size_t index, const Shape& shape)>;

inline at::Tensor waves(const Shape& shape, int64_t seed) {
  const int64_t count = count_of(shape);
  return at::arange(seed, seed + count, at::kFloat).mul(0.7).sin().mul(0.3).view(shape);
}

inline Placements in_rows(size_t /*index*/, const Shape& /*shape*/) {
  return {{Axis::kShard, 0}};
}

/// The last dimension, of a column-parallel or row-parallel layer, or one in between.
inline int64_t dim_of(size_t index, const Shape& shape) {
  return static_cast<int64_t>(index) % static_cast<int64_t>(shape.size());
}

/// Training of parameters of these shapes, of which the second step has a gradient for "odd" alone.
struct ShardedTraining {
  NamedShapes shapes;
  int64_t steps = 3;
  int64_t reloaded_after = -1;  ///< the step after which another optimizer loads the state

  std::vector<Parameter> parameters(const Mesh& mesh, const PlacementsOf& placements_of) const {
    std::vector<Parameter> out;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const auto& [name, shape] = shapes[i];
      Parameter item{.name = name, .local = waves(shape, count_of(shape)), .global = shape};
      if (!shape.empty()) item.placements = placements_of(i, shape);
      item.local = share_of(item.local, item.placements, mesh).clone().requires_grad_(true);
      out.push_back(item);
    }
    return out;
  }

  /// Weights and state, whole, after the last step.
  NamedTensors train(const Mesh& mesh, const std::string& recipe,
                     const PlacementsOf& placements_of = in_rows) const {
    const OptimizerContext context = {parameters(mesh, placements_of), make_shard_exchange(mesh)};
    auto optimizer = build<Optimizer>(recipe, context);
    EXPECT_TRUE(optimizer->supports_shards());
    for (int64_t step = 0; step < steps; ++step) {
      for (const Parameter& item : context.parameters) {
        const at::Tensor whole = waves(item.shape(), 31 * step + 5).square().sub(0.02);
        const bool skipped = step == 1 && item.name != "odd";
        item.local.mutable_grad() =
            skipped ? at::Tensor() : share_of(whole, item.placements, mesh).clone();
      }
      optimizer->step();
      if (step != reloaded_after) continue;
      auto resumed = build<Optimizer>(recipe, context);
      resumed->load(optimizer->state());
      optimizer = std::move(resumed);
    }
    return gathered(context.parameters, *optimizer, mesh);
  }

  /// By each rank.
  std::vector<NamedTensors> train_on(const MeshSizes& sizes, const std::string& recipe,
                                     const PlacementsOf& placements_of = in_rows) const {
    std::vector<NamedTensors> out(static_cast<size_t>(sizes.ranks()));
    on_ranks(sizes.ranks(), [&](Communicator& group) {
      const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
      out[static_cast<size_t>(group.rank())] =
          train(make_mesh(world, sizes), recipe, placements_of);
    });
    return out;
  }

 private:
  static NamedTensors gathered(const std::vector<Parameter>& parameters, const Optimizer& optimizer,
                               const Mesh& mesh) {
    NamedTensors out;
    for (const Parameter& item : parameters) {
      out[item.name] = gather_whole(item, mesh).detach().clone();
    }
    const OptimizerState state = optimizer.state();
    for (const OptimizerState::Group& group : state.groups) {
      for (const OptimizerState::ParameterState& parameter : group.parameters) {
        for (const Parameter& slot : parameter.slots) {
          out[parameter.name + "." + slot.name] = gather_whole(slot, mesh).clone();
        }
      }
    }
    return out;
  }
};

inline void expect_bits(const std::vector<NamedTensors>& found, const NamedTensors& one,
                        const std::string& what) {
  for (const NamedTensors& of_rank : found) {
    ASSERT_EQ(of_rank.size(), one.size());
    for (const auto& [name, tensor] : one) {
      EXPECT_TRUE(at::equal(of_rank.at(name), tensor)) << name << " on " << what;
    }
  }
}

}  // namespace accel
