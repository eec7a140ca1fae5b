// Linear layers of a model that compute in fp8.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/diagnostic.h"
#include "kernels/fp8/fp8_linear.h"

namespace accel {

class AdaptedLinearImpl;
class Model;

/// A linear layer, and why it stays in autocast's type; "": it may compute in fp8.
struct Fp8Candidate {
  std::string name;
  AdaptedLinearImpl* layer;  ///< owned by the model; null: not of this class
  std::string reason;
};

/// The linear layers of the model in registration order, without those of adapters. `filter`:
/// patterns of names that stay as they are; null: the first and the last layer, as Accelerate.
/// Throws RecipeError, at `where`, for patterns without a match and if no layer is left.
std::vector<Fp8Candidate> fp8_candidates(Model& model,
                                         const std::optional<std::vector<std::string>>& filter,
                                         const Span& where);

/// Whether the layer reads its weight in fp8 alone: DoRA has norms of the weight itself.
bool reads_fp8_alone(const Fp8Candidate& candidate);

/// The weights of layers with Fp8Layer::gathered, by their names in parameters_of().
std::map<std::string, std::shared_ptr<GatheredWeight>> fp8_gathered_weights(Model& model);

/// Lets a layer without a reason compute in fp8.
void set_fp8(const Fp8Candidate& candidate, std::shared_ptr<const Fp8Layer> layer);

/// "8 of 10 linear layers; in bf16: lm_head (the last)"
std::string fp8_summary(const std::vector<Fp8Candidate>& layers);

}  // namespace accel
