#include "infer/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "infer/logits_processors.h"

namespace accel {
namespace {

/// The largest first, equal ones in their order.
void sort_by_score(std::vector<Beam>& beams, size_t kept) {
  std::stable_sort(beams.begin(), beams.end(),
                   [](const Beam& a, const Beam& b) { return a.score > b.score; });
  if (beams.size() > kept) beams.resize(kept);
}

}  // namespace

BeamSearch::BeamSearch(const std::vector<int64_t>& prompt, const GenerationRequest& request,
                       uint64_t stream)
    : request_(request),
      config_(request.config),
      rng_(static_cast<uint64_t>(request.seed), stream, 0),
      prompt_length_(static_cast<int64_t>(prompt.size())),
      max_length_(prompt_length_ + config_.new_tokens(prompt_length_, request.default_new_tokens)),
      beams_(static_cast<size_t>(config_.num_beams)) {
  running_.push_back({.tokens = prompt, .score = 0});
}

bool BeamSearch::advance(const at::Tensor& logits) {
  std::vector<Beam> extended = extend(logits);
  finish(extended);
  const bool all_stop =
      std::all_of(extended.begin(), extended.end(), [](const Beam& beam) { return beam.stops; });
  keep_running(std::move(extended));
  return !all_stop && can_improve();
}

struct BeamSearch::Candidate {
  float score;
  size_t row;
  int64_t token;
  double key;  ///< of the order: the score, or a sample's
};

/// All tokens after the running beams that the processors leave.
std::vector<BeamSearch::Candidate> BeamSearch::candidates(const at::Tensor& logits) const {
  const auto vocab = static_cast<size_t>(logits.size(1));
  std::vector<Candidate> out;
  for (size_t row = 0; row < running_.size(); ++row) {
    const auto* values = logits[static_cast<int64_t>(row)].const_data_ptr<float>();
    std::vector<float> scores(values, values + vocab);
    score(running_[row], scores);
    for (size_t token = 0; token < vocab; ++token) {
      if (std::isinf(scores[token])) continue;
      const float sum = scores[token] + running_[row].score;
      out.push_back({sum, row, static_cast<int64_t>(token), static_cast<double>(sum)});
    }
  }
  if (out.empty()) check_not_suppressed({});
  return out;
}

/// The most likely continuations of the running beams, or in sampling random ones without
/// replacement, in the order of the draws (Kool et al. 2019, the Gumbel-top-k trick): at least as
/// many as beams do not end.
std::vector<Beam> BeamSearch::extend(const at::Tensor& logits) {
  std::vector<Candidate> all = candidates(logits);
  if (config_.do_sample) {
    for (Candidate& each : all) each.key -= std::log(-std::log1p(-rng_.uniform()));
  }
  const size_t kept = std::max<size_t>(2, 1 + config_.eos_token_id.size()) * beams_;
  const size_t count = std::min(kept, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(count), all.end(),
                    [](const Candidate& a, const Candidate& b) {
                      if (a.key != b.key) return a.key > b.key;
                      return a.row != b.row ? a.row < b.row : a.token < b.token;
                    });
  std::vector<Beam> out;
  for (size_t i = 0; i < count; ++i) {
    const Candidate& from = all[i];
    Beam& beam = out.emplace_back(
        Beam{running_[from.row].tokens, from.score, static_cast<int64_t>(from.row)});
    beam.tokens.push_back(from.token);
    mark_end(beam);
  }
  return out;
}

void BeamSearch::score(const Beam& beam, std::span<float> scores) const {
  if (!config_.remove_invalid_values) check_logits(scores);
  to_log_probabilities(scores);
  process_logits(config_, {beam.tokens, prompt_length_, max_length_}, scores);
}

void BeamSearch::mark_end(Beam& beam) const {
  beam.stops = true;
  if (config_.eos_token_id.contains(beam.tokens.back())) {
    beam.end = GenerationEnd::kToken;
  } else if (request_.is_stopped && request_.is_stopped(beam.tokens)) {
    beam.end = GenerationEnd::kStopString;
  } else {
    beam.stops = static_cast<int64_t>(beam.tokens.size()) >= max_length_;
  }
}

/// Adds those of the first `beams_` that stop to the finished beams.
void BeamSearch::finish(const std::vector<Beam>& extended) {
  const bool is_full = finished_.size() == beams_ && config_.early_stopping == EarlyStopping::kTrue;
  if (is_full || !may_improve_) return;
  for (size_t i = 0; i < std::min(beams_, extended.size()); ++i) {
    if (!extended[i].stops) continue;
    Beam beam = extended[i];
    beam.score /= length_divisor(static_cast<int64_t>(beam.tokens.size()));
    finished_.push_back(std::move(beam));
  }
  sort_by_score(finished_, beams_);
}

void BeamSearch::keep_running(std::vector<Beam> extended) {
  for (Beam& beam : extended) {
    if (beam.stops) beam.score += kUnlikelyBeam;
  }
  sort_by_score(extended, beams_);
  running_ = std::move(extended);
}

float BeamSearch::length_divisor(int64_t length) const {
  return static_cast<float>(
      std::pow(static_cast<double>(length - prompt_length_), config_.length_penalty));
}

bool BeamSearch::can_improve() {
  const bool is_never = config_.early_stopping == EarlyStopping::kNever;
  const int64_t longest = is_never && config_.length_penalty > 0
                              ? max_length_
                              : static_cast<int64_t>(running_.front().tokens.size());
  const float best = running_.front().score / length_divisor(longest);
  const bool is_full = finished_.size() == beams_;
  // As in transformers, a place without a finished beam has the worst score, and any place
  // counts.
  const float worst = is_full ? finished_.back().score : kUnlikelyBeam;
  may_improve_ = may_improve_ && best > worst;
  return may_improve_ && !(is_full && config_.early_stopping == EarlyStopping::kTrue);
}

GeneratedTokens BeamSearch::result() const {
  const Beam& best = finished_.empty() ? running_.front() : finished_.front();
  GeneratedTokens out;
  out.tokens.assign(best.tokens.begin() + prompt_length_, best.tokens.end());
  out.end = best.end;
  if (out.end == GenerationEnd::kToken) out.tokens.pop_back();
  return out;
}

}  // namespace accel
