// Beam search with the scores, stopping rules and ties of transformers' generate(), greedy or
// sampling.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/api/sample_rng.h"
#include "infer/generation_request.h"

namespace accel {

/// Below every log-probability.
inline constexpr float kUnlikelyBeam = -1e9F;

struct Beam {
  std::vector<int64_t> tokens;  ///< prompt and new ones, also an end token
  float score = kUnlikelyBeam;  ///< log-probability; of finished beams divided by the length
  int64_t source = 0;           ///< of the beams before, the one that this one extends
  bool stops = false;
  GenerationEnd end = GenerationEnd::kLength;
};

/// The search of one prompt, with `stream` of random numbers. The request outlives it.
class BeamSearch {
 public:
  BeamSearch(const std::vector<int64_t>& prompt, const GenerationRequest& request, uint64_t stream);

  /// Extends the running beams by a token each. `logits`: of their next tokens, float32 [beams,
  /// vocab]; of the prompt at first. Returns whether the search continues.
  bool advance(const at::Tensor& logits);
  /// After the first advance(), `num_beams` of them or fewer.
  std::span<const Beam> running() const { return running_; }
  GeneratedTokens result() const;

 private:
  struct Candidate;
  std::vector<Candidate> candidates(const at::Tensor& logits) const;
  std::vector<Beam> extend(const at::Tensor& logits);
  void score(const Beam& beam, std::span<float> scores) const;
  void mark_end(Beam& beam) const;
  void finish(const std::vector<Beam>& extended);
  void keep_running(std::vector<Beam> extended);
  float length_divisor(int64_t length) const;
  bool can_improve();

  const GenerationRequest& request_;
  const GenerationConfig& config_;
  SampleRng rng_;
  int64_t prompt_length_, max_length_;
  size_t beams_;
  std::vector<Beam> running_, finished_;
  bool may_improve_ = true;
};

}  // namespace accel
