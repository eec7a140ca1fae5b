#include "infer/logits_processors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

using Scores = std::span<float>;
using Tokens = std::span<const int64_t>;

constexpr size_t kScoreLanes = 16;  // independent results, of which compilers make vectors

/// Calls of(lane, score) for all scores, those of a lane in order.
template <class Of>
void for_each_lane(std::span<const float> scores, const Of& of) {
  size_t i = 0;
  for (; i + kScoreLanes <= scores.size(); i += kScoreLanes) {
    for (size_t lane = 0; lane < kScoreLanes; ++lane) of(lane, scores[i + lane]);
  }
  for (size_t lane = 0; i < scores.size(); ++i, ++lane) of(lane, scores[i]);
}

float largest_of(std::span<const float> scores) {
  std::array<float, kScoreLanes> largest;
  largest.fill(kNever);
  for_each_lane(scores, [&](size_t lane, float score) {
    largest[lane] = score > largest[lane] ? score : largest[lane];
  });
  return *std::max_element(largest.begin(), largest.end());
}

float& score_of(Scores scores, int64_t token) {
  return scores[static_cast<size_t>(token)];
}

bool is_in(int64_t token, Scores scores) {
  return token >= 0 && token < static_cast<int64_t>(scores.size());
}

template <class Ids>
void suppress(const Ids& tokens, Scores scores) {
  for (const int64_t token : tokens) {
    if (is_in(token, scores)) score_of(scores, token) = kNever;
  }
}

/// All others become -inf.
template <class Ids>
void force(const Ids& tokens, Scores scores) {
  std::fill(scores.begin(), scores.end(), kNever);
  for (const int64_t token : tokens) {
    if (is_in(token, scores)) score_of(scores, token) = 0;
  }
}

bool ends_with(Tokens tokens, Tokens end) {
  return tokens.size() >= end.size() &&
         std::equal(end.begin(), end.end(), tokens.end() - static_cast<ptrdiff_t>(end.size()));
}

/// Biases of one token, then the sums of those of several, as transformers adds them.
void add_biases(const std::vector<SequenceBias>& biases, Tokens tokens, Scores scores) {
  std::vector<float> sums(scores.size());
  const auto add = [&](bool is_single, const SequenceBias& bias) {
    if ((bias.tokens.size() == 1) != is_single) return;
    const int64_t last = bias.tokens.back();
    if (!ends_with(tokens, Tokens(bias.tokens).first(bias.tokens.size() - 1))) return;
    float& sum = sums[static_cast<size_t>(last)];
    sum = is_single ? bias.bias : sum + bias.bias;
  };
  for (const SequenceBias& bias : biases) {
    for (const int64_t token : bias.tokens) {
      if (is_in(token, scores)) continue;
      throw Error(ExitCode::kRecipe,
                  text("a bias names token {}; the model has {} tokens", token, scores.size()),
                  "use the ids of the model's tokenizer");
    }
  }
  for (const SequenceBias& bias : biases) add(true, bias);
  for (const SequenceBias& bias : biases) add(false, bias);
  for (size_t i = 0; i < scores.size(); ++i) scores[i] += sums[i];
}

std::vector<SequenceBias> bad_words(const GenerationConfig& config) {
  std::vector<SequenceBias> out;
  for (const std::vector<int64_t>& word : config.bad_words_ids) {
    if (word.size() == 1 && config.eos_token_id.contains(word.front())) continue;
    out.push_back({word, kNever});
  }
  return out;
}

void penalize_repetition(double penalty, Tokens tokens, Scores scores) {
  const std::set<int64_t> seen(tokens.begin(), tokens.end());
  const auto by = static_cast<float>(penalty);
  for (const int64_t token : seen) {
    if (!is_in(token, scores)) continue;
    float& score = score_of(scores, token);
    score = score < 0 ? score * by : score / by;
  }
}

void ban_repeated_ngrams(int64_t size, Tokens tokens, Scores scores) {
  const auto n = static_cast<size_t>(size);
  if (tokens.size() < n) return;
  const Tokens prefix = tokens.last(n - 1);
  for (size_t first = 0; first + n <= tokens.size(); ++first) {
    const Tokens window = tokens.subspan(first, n);
    if (std::equal(prefix.begin(), prefix.end(), window.begin())) {
      suppress(window.last(1), scores);
    }
  }
}

void remove_invalid_values(Scores scores) {
  for (float& score : scores) {
    if (std::isnan(score)) score = 0;
    if (std::isinf(score)) score = std::copysign(std::numeric_limits<float>::max(), score);
  }
}

void raise_end_tokens(const GenerationConfig& config, const ScoredSequence& sequence,
                      Scores scores) {
  const auto& [start, factor] = *config.exponential_decay_length_penalty;
  const int64_t beyond = static_cast<int64_t>(sequence.tokens.size()) - start - sequence.prompt;
  if (beyond <= 0) return;
  const auto growth = static_cast<float>(std::pow(factor, static_cast<double>(beyond)) - 1);
  for (const int64_t token : config.eos_token_id) {
    if (!is_in(token, scores) || !std::isfinite(score_of(scores, token))) continue;
    score_of(scores, token) += std::fabs(score_of(scores, token)) * growth;
  }
}

/// Tokens that are left, with their probabilities.
struct Candidates {
  std::vector<int64_t> tokens;
  std::vector<double> chances;  ///< sum to 1

  explicit Candidates(std::span<const float> scores) {
    const float largest = largest_of(scores);
    for (size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] == kNever) continue;
      tokens.push_back(static_cast<int64_t>(i));
      chances.push_back(std::exp(static_cast<double>(scores[i]) - largest));
    }
    const double sum = std::accumulate(chances.begin(), chances.end(), 0.0);
    for (double& chance : chances) chance /= sum;
  }

  double entropy() const {
    double sum = 0;
    for (const double chance : chances) sum -= chance > 0 ? chance * std::log(chance) : 0;
    return sum;
  }

  /// Indices by ascending `keys`, equal ones in the order of tokens.
  static std::vector<size_t> sorted_by(const std::vector<double>& keys) {
    std::vector<size_t> order(keys.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return keys[a] < keys[b]; });
    return order;
  }

  /// The likeliest first.
  std::vector<size_t> likeliest_first() const {
    std::vector<double> keys;
    for (const double chance : chances) keys.push_back(-chance);
    return sorted_by(keys);
  }

  void remove(size_t i, Scores scores) const { score_of(scores, tokens[i]) = kNever; }
  /// Removes those less likely than `least`, but the `kept` likeliest.
  void remove_below(double least, size_t kept, Scores scores) const {
    const size_t last = std::min(kept, chances.size()) - 1;
    const double likely = chances[likeliest_first()[last]];
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (chances[i] < least && chances[i] < likely) remove(i, scores);
    }
  }
};

constexpr size_t kMostOfTopH = 100;  // tokens considered, as in transformers

void keep_top_h(double share, Scores scores) {
  std::vector<float> top(scores.begin(), scores.end());
  if (top.size() > kMostOfTopH) {
    std::nth_element(top.begin(), top.begin() + kMostOfTopH - 1, top.end(), std::greater<>());
    const float least = top[kMostOfTopH - 1];
    for (float& score : scores) {
      if (score < least) score = kNever;
    }
  }
  const Candidates all(scores);
  const double limit = all.entropy() * share;
  double sum = 0;
  bool is_first = true;
  for (const size_t i : all.likeliest_first()) {
    const double chance = all.chances[i];
    sum -= chance > 0 ? chance * std::log(chance) : 0;
    if (sum > limit && !is_first) all.remove(i, scores);
    is_first = false;
  }
}

void keep_top_k(int64_t k, Scores scores) {
  if (k >= static_cast<int64_t>(scores.size())) return;
  std::vector<float> sorted(scores.begin(), scores.end());
  std::nth_element(sorted.begin(), sorted.begin() + k - 1, sorted.end(), std::greater<>());
  const float least = sorted[static_cast<size_t>(k - 1)];
  for (float& score : scores) {
    if (score < least) score = kNever;
  }
}

/// Removes the least likely tokens whose probabilities add up to at most 1 - p.
void keep_top_p(double p, size_t kept, Scores scores) {
  const Candidates all(scores);
  std::vector<size_t> order = Candidates::sorted_by(all.chances);
  double sum = 0;
  for (size_t i = 0; i + kept < order.size(); ++i) {
    sum += all.chances[order[i]];
    if (sum > 1 - p) return;
    all.remove(order[i], scores);
  }
}

void keep_min_p(double share, size_t kept, Scores scores) {
  const Candidates all(scores);
  const double largest = *std::max_element(all.chances.begin(), all.chances.end());
  all.remove_below(share * largest, kept, scores);
}

/// Keeps those whose information is nearest to the entropy, up to `mass`.
void keep_typical(double mass, size_t kept, Scores scores) {
  const Candidates all(scores);
  const double entropy = all.entropy();
  std::vector<double> distances;
  for (const double chance : all.chances) {
    distances.push_back(std::fabs(-std::log(chance) - entropy));
  }
  const std::vector<size_t> order = Candidates::sorted_by(distances);
  double sum = 0;
  size_t last = 0;
  while (last + 1 < order.size() && (sum += all.chances[order[last]]) < mass) ++last;
  const double limit = distances[order[last]];
  for (size_t i = kept; i < order.size(); ++i) {
    if (distances[order[i]] > limit) all.remove(order[i], scores);
  }
}

void keep_above_eta(double epsilon, size_t kept, Scores scores) {
  const Candidates all(scores);
  all.remove_below(std::min(epsilon, std::sqrt(epsilon) * std::exp(-all.entropy())), kept, scores);
}

/// Tokens that filters leave: beams need one that does not end.
size_t least_tokens(const GenerationConfig& config) {
  if (config.num_beams == 1) return 1;
  return std::max<size_t>(2, config.eos_token_id.size() + 1);
}

void filter_for_sampling(const GenerationConfig& config, Scores scores) {
  const size_t kept = least_tokens(config);
  if (config.temperature > 0 && config.temperature != 1) {
    const auto temperature = static_cast<float>(config.temperature);
    for (float& score : scores) score /= temperature;
  }
  if (config.top_h) keep_top_h(*config.top_h, scores);
  if (config.top_k > 0) keep_top_k(std::max(config.top_k, static_cast<int64_t>(kept)), scores);
  if (config.top_p < 1) keep_top_p(config.top_p, kept, scores);
  if (config.min_p) keep_min_p(*config.min_p, kept, scores);
  if (config.typical_p < 1) keep_typical(config.typical_p, kept, scores);
  if (config.epsilon_cutoff > 0 && config.epsilon_cutoff < 1) {
    Candidates(scores).remove_below(config.epsilon_cutoff, kept, scores);
  }
  if (config.eta_cutoff > 0 && config.eta_cutoff < 1) {
    keep_above_eta(config.eta_cutoff, kept, scores);
  }
}

}  // namespace

void process_logits(const GenerationConfig& config, const ScoredSequence& sequence,
                    std::span<float> scores) {
  const Tokens tokens = sequence.tokens;
  const auto length = static_cast<int64_t>(tokens.size());
  if (!config.sequence_bias.empty()) add_biases(config.sequence_bias, tokens, scores);
  if (config.repetition_penalty != 1) {
    penalize_repetition(config.repetition_penalty, tokens, scores);
  }
  if (config.no_repeat_ngram_size > 0) {
    ban_repeated_ngrams(config.no_repeat_ngram_size, tokens, scores);
  }
  if (!config.bad_words_ids.empty()) add_biases(bad_words(config), tokens, scores);
  if (length < config.min_length || length - sequence.prompt < config.min_new_tokens) {
    suppress(config.eos_token_id, scores);
  }
  if (config.forced_bos_token_id && length == 1) {
    force(std::vector<int64_t>{*config.forced_bos_token_id}, scores);
  }
  if (!config.forced_eos_token_id.empty() && length == sequence.max_length - 1) {
    force(config.forced_eos_token_id, scores);
  }
  if (config.remove_invalid_values) remove_invalid_values(scores);
  if (config.exponential_decay_length_penalty) raise_end_tokens(config, sequence, scores);
  suppress(config.suppress_tokens, scores);
  const bool is_late = config.forced_bos_token_id && sequence.prompt <= 1;
  if (length == sequence.prompt + (is_late ? 1 : 0)) {
    suppress(config.begin_suppress_tokens, scores);
  }
  if (config.do_sample) filter_for_sampling(config, scores);
  if (config.renormalize_logits) to_log_probabilities(scores);
}

void check_logits(std::span<const float> logits) {
  // Without branches, for vectors: NaN is not below the largest number.
  constexpr float kLargest = std::numeric_limits<float>::max();
  std::array<uint32_t, kScoreLanes> invalid = {};
  for_each_lane(logits,
                [&](size_t lane, float logit) { invalid[lane] |= logit <= kLargest ? 0U : 1U; });
  if (std::find(invalid.begin(), invalid.end(), 1U) != invalid.end()) {
    throw DivergedError("the model's logits are not finite",
                        "use a checkpoint from before the divergence");
  }
  if (largest_of(logits) < -kLargest) {
    throw DivergedError("the model gives every token probability 0");
  }
}

void check_not_suppressed(std::span<const float> scores) {
  for (const float score : scores) {
    if (score > kNever) return;
  }
  throw Error(ExitCode::kRecipe, "the generation config suppresses every token",
              "relax 'bad_words_ids', 'suppress_tokens' or 'no_repeat_ngram_size'");
}

int64_t argmax_token(std::span<const float> scores) {
  const auto found = std::find(scores.begin(), scores.end(), largest_of(scores));
  return found == scores.end() ? 0 : found - scores.begin();
}

int64_t sample_token(std::span<const float> scores, SampleRng& rng) {
  const float largest = largest_of(scores);
  std::vector<double> chances;
  for (const float score : scores) {
    chances.push_back(std::exp(static_cast<double>(score) - largest));
  }
  const double drawn = rng.uniform() * std::accumulate(chances.begin(), chances.end(), 0.0);
  double sum = 0;
  size_t last = 0;  // with nonzero probability: rounding must not select beyond it
  for (size_t i = 0; i < chances.size(); ++i) {
    sum += chances[i];
    if (chances[i] > 0) last = i;
    if (drawn < sum) break;
  }
  return static_cast<int64_t>(last);
}

void to_log_probabilities(std::span<float> scores) {
  const float largest = largest_of(scores);
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - largest);
  const auto log_sum = static_cast<float>(std::log(sum));
  for (float& score : scores) score = score - largest - log_sum;
}

}  // namespace accel
