// Families of transformers that are a Llama with some options: the options that each has, and its
// defaults.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/llama_options.h"

namespace accel::llama_families {

/// Options by which families differ, one bit each.
enum LlamaFeature : unsigned {
  kExperts = 1U << 0,
  kQkNorm = 1U << 1,
  kInputBias = 1U << 2,
  kAttentionBias = 1U << 3,
  kMlpBias = 1U << 4,
  kWindow = 1U << 5,       // in all layers
  kSomeWindows = 1U << 6,  // in some of them
  kLocalRope = 1U << 7,
  kNope = 1U << 8,
  kZeroCentered = 1U << 9,
  kSandwich = 1U << 10,
  kScaledEmbeddings = 1U << 11,
  kFused = 1U << 12,
  kQueryScalar = 1U << 13,
  kScoreCap = 1U << 14,
  kLogitCap = 1U << 15,
  kPartialRotary = 1U << 16,
  kResidualDropout = 1U << 17,
  kSharedExpert = 1U << 18,
};

/// Values of keys that a config may lack, as in transformers.
struct LlamaDefaults {
  int64_t context = 32768;
  double norm_eps = 1e-6;
  double theta = 10000.0;
  int64_t head_dim = 0;  ///< 0: hidden_size / num_heads
  bool tied = false;
  int64_t window = 0;    ///< 0: none
  int64_t kv_heads = 0;  ///< 0: as many as queries
  int64_t pad = -1;      ///< `pad_token_id`; -1: none
};

/// A family, the most general last.
struct LlamaFamily {
  const char* model_type;
  const char* prefix;  ///< of its classes
  unsigned always, maybe;
  LlamaDefaults defaults;
  /// Prefix of the weights in its class for question answering; null: without such a class here.
  const char* answers_base = nullptr;
};

inline constexpr unsigned kWindows = kWindow | kSomeWindows;
inline constexpr unsigned kGemma = kZeroCentered | kScaledEmbeddings;

/// Null for a `model_type` of no family.
const LlamaFamily* family_of(const std::string& model_type);

/// The family of the config if it has the options, else the first that has. Throws Error (kRecipe)
/// without one.
const LlamaFamily& family_for(const LlamaOptions& options, const nlohmann::json& config);

/// The family of options with a head for a span, whose weights have its `answers_base`: the first
/// that has the options, whatever the config says. Null without one.
const LlamaFamily* answers_family(const LlamaOptions& options);

inline bool is_gemma(const LlamaFamily& family) {
  return (family.always & kGemma) == kGemma;
}

}  // namespace accel::llama_families
