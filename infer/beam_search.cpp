// Beam search with the scores, stopping rules and ties of transformers' generate(), greedy or
// sampling, of several prompts at once.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "infer/generate.h"
#include "infer/logits_processors.h"

namespace accel {
namespace {

constexpr float kUnlikely = -1e9F;  // below every log-probability

struct Beam {
  std::vector<int64_t> tokens;  ///< prompt and new ones, also an end token
  float score = kUnlikely;      ///< log-probability; of finished beams divided by the length
  int64_t source = 0;           ///< row of the beam that this one extends
  bool stops = false;
  GenerationEnd end = GenerationEnd::kLength;
};

/// Continuations that a step looks at: at least as many as beams do not end.
size_t candidates_per_step(const GenerationConfig& config) {
  return std::max<size_t>(2, 1 + config.eos_token_id.size()) *
         static_cast<size_t>(config.num_beams);
}

/// The largest first, equal ones in their order.
void sort_by_score(std::vector<Beam>& beams, size_t kept) {
  std::stable_sort(beams.begin(), beams.end(),
                   [](const Beam& a, const Beam& b) { return a.score > b.score; });
  if (beams.size() > kept) beams.resize(kept);
}

/// The search of one prompt.
class BeamSearch {
 public:
  BeamSearch(const std::vector<int64_t>& prompt, const GenerationRequest& request, uint64_t stream)
      : request_(request),
        config_(request.config),
        rng_(static_cast<uint64_t>(request.seed), stream, 0),
        prompt_length_(static_cast<int64_t>(prompt.size())),
        max_length_(prompt_length_ +
                    config_.new_tokens(prompt_length_, request.default_new_tokens)),
        beams_(static_cast<size_t>(config_.num_beams)) {
    running_.push_back({.tokens = prompt, .score = 0});
  }

  /// Chooses the next tokens by the logits of the running beams [beams, vocab]. Returns whether the
  /// search continues.
  bool advance(const at::Tensor& logits) {
    std::vector<Beam> extended = extend(logits);
    finish(extended);
    const bool all_stop =
        std::all_of(extended.begin(), extended.end(), [](const Beam& beam) { return beam.stops; });
    keep_running(std::move(extended));
    return !all_stop && can_improve();
  }

  /// Of advance(); `source` counts the rows of the search.
  std::vector<Beam>& running() { return running_; }

  GeneratedTokens result() const {
    const Beam& best = finished_.empty() ? running_.front() : finished_.front();
    GeneratedTokens out;
    out.tokens.assign(best.tokens.begin() + prompt_length_, best.tokens.end());
    out.end = best.end;
    if (out.end == GenerationEnd::kToken) out.tokens.pop_back();
    return out;
  }

 private:
  struct Candidate {
    float score;
    size_t row;
    int64_t token;
    double key;  ///< of the order: the score, or a sample's
  };

  /// All tokens after the running beams that the processors leave.
  std::vector<Candidate> candidates(const at::Tensor& logits) const {
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
  /// replacement, in the order of the draws (Kool et al. 2019, the Gumbel-top-k trick).
  std::vector<Beam> extend(const at::Tensor& logits) {
    std::vector<Candidate> all = candidates(logits);
    if (config_.do_sample) {
      for (Candidate& each : all) each.key -= std::log(-std::log1p(-rng_.uniform()));
    }
    const auto count = std::min(candidates_per_step(config_), all.size());
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

  void score(const Beam& beam, std::span<float> scores) const {
    if (!config_.remove_invalid_values) check_logits(scores);
    to_log_probabilities(scores);
    process_logits(config_, {beam.tokens, prompt_length_, max_length_}, scores);
  }

  void mark_end(Beam& beam) const {
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
  void finish(const std::vector<Beam>& extended) {
    const bool is_full =
        finished_.size() == beams_ && config_.early_stopping == EarlyStopping::kTrue;
    if (is_full || !may_improve_) return;
    for (size_t i = 0; i < std::min(beams_, extended.size()); ++i) {
      if (!extended[i].stops) continue;
      Beam beam = extended[i];
      beam.score /= length_divisor(static_cast<int64_t>(beam.tokens.size()));
      finished_.push_back(std::move(beam));
    }
    sort_by_score(finished_, beams_);
  }

  void keep_running(std::vector<Beam> extended) {
    for (Beam& beam : extended) {
      if (beam.stops) beam.score += kUnlikely;
    }
    sort_by_score(extended, beams_);
    running_ = std::move(extended);
  }

  float length_divisor(int64_t length) const {
    return static_cast<float>(
        std::pow(static_cast<double>(length - prompt_length_), config_.length_penalty));
  }

  bool can_improve() {
    const bool is_never = config_.early_stopping == EarlyStopping::kNever;
    const int64_t longest = is_never && config_.length_penalty > 0
                                ? max_length_
                                : static_cast<int64_t>(running_.front().tokens.size());
    const float best = running_.front().score / length_divisor(longest);
    const bool is_full = finished_.size() == beams_;
    // As in transformers, a place without a finished beam has the worst score, and any place
    // counts.
    const float worst = is_full ? finished_.back().score : kUnlikely;
    may_improve_ = may_improve_ && best > worst;
    return may_improve_ && !(is_full && config_.early_stopping == EarlyStopping::kTrue);
  }

  const GenerationRequest& request_;
  const GenerationConfig& config_;
  SampleRng rng_;
  int64_t prompt_length_, max_length_;
  size_t beams_;
  std::vector<Beam> running_, finished_;
  bool may_improve_ = true;
};

/// The searches of all prompts, some of which have rows in the batch.
class BeamSearches {
 public:
  BeamSearches(SequenceBatch& batch, const std::vector<std::vector<int64_t>>& prompts,
               const GenerationRequest& request,
               const std::function<void(size_t, GeneratedTokens)>& done)
      : batch_(batch), prompts_(prompts), request_(request), done_(done) {}

  void run(size_t at_once) {
    while (next_prompt_ < prompts_.size() || !active_.empty()) {
      while (active_.size() < at_once && next_prompt_ < prompts_.size()) start();
      if (!active_.empty()) step();
    }
  }

 private:
  struct Active {
    size_t prompt;
    std::unique_ptr<BeamSearch> search;
    int64_t first_row, rows;  ///< in the batch
  };

  void start() {
    const size_t i = next_prompt_++;
    const auto length = static_cast<int64_t>(prompts_[i].size());
    if (request_.config.new_tokens(length, request_.default_new_tokens) == 0) return done_(i, {});
    const at::Tensor logits = batch_.add(prompts_[i]);
    const uint64_t stream =
        request_.streams.empty() ? request_.first_stream + i : request_.streams[i];
    Active added = {i, std::make_unique<BeamSearch>(prompts_[i], request_, stream),
                    static_cast<int64_t>(batch_.size()) - 1, 1};
    if (added.search->advance(logits.unsqueeze(0))) {
      active_.push_back(std::move(added));
    } else {
      batch_.remove(batch_.size() - 1);
      done_(i, added.search->result());
    }
  }

  void step() {
    std::vector<int64_t> newest;
    reorder(newest);
    const at::Tensor logits = batch_.next(newest);
    std::vector<size_t> ended;
    for (size_t i = 0; i < active_.size(); ++i) {
      Active& each = active_[i];
      if (!each.search->advance(logits.narrow(0, each.first_row, each.rows))) ended.push_back(i);
    }
    if (ended.empty()) return;
    for (const size_t i : ended) done_(active_[i].prompt, active_[i].search->result());
    std::reverse(ended.begin(), ended.end());
    for (const size_t i : ended) active_.erase(active_.begin() + static_cast<ptrdiff_t>(i));
    // Their rows go, before others come.
    if (next_prompt_ < prompts_.size() || active_.empty()) drop_ended();
  }

  /// Gives each running beam the row that it extends.
  void reorder(std::vector<int64_t>& newest) {
    std::vector<int64_t> sources;
    for (Active& each : active_) {
      const int64_t first = each.first_row;
      each.first_row = static_cast<int64_t>(sources.size());
      for (Beam& beam : each.search->running()) {
        sources.push_back(first + std::exchange(beam.source, static_cast<int64_t>(sources.size()) -
                                                                 each.first_row));
        newest.push_back(beam.tokens.back());
      }
      each.rows = static_cast<int64_t>(sources.size()) - each.first_row;
    }
    batch_.gather(sources);
  }

  void drop_ended() {
    if (active_.empty()) {
      while (batch_.size() > 0) batch_.remove(batch_.size() - 1);
      return;
    }
    std::vector<int64_t> newest;
    reorder(newest);
  }

  SequenceBatch& batch_;
  const std::vector<std::vector<int64_t>>& prompts_;
  const GenerationRequest& request_;
  const std::function<void(size_t, GeneratedTokens)>& done_;
  size_t next_prompt_ = 0;
  std::vector<Active> active_;  ///< in the order of their rows
};

}  // namespace

void search_beams(SequenceBatch& batch, const std::vector<std::vector<int64_t>>& prompts,
                  const GenerationRequest& request, size_t at_once,
                  const std::function<void(size_t, GeneratedTokens)>& done) {
  BeamSearches(batch, prompts, request, done).run(at_once);
}

}  // namespace accel
