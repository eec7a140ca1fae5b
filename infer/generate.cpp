#include "infer/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/api/sample_rng.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "infer/beam_search.h"
#include "infer/logits_processors.h"
#include "models/layers/decoding.h"
#include "models/layers/module_state.h"

namespace accel {
namespace {

/// Puts the model into eval mode.
class EvalScope {
 public:
  explicit EvalScope(Model& model) : model_(model), was_training_(is_training(model)) {
    if (was_training_) set_training(model_, false);
  }
  ~EvalScope() {
    if (was_training_) set_training(model_, true);
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  Model& model_;
  bool was_training_;
};

/// A prompt that is being continued, in a row of the batch.
struct Continuation {
  size_t prompt;                ///< index
  std::vector<int64_t> tokens;  ///< of the prompt and new ones
  int64_t prompt_length;
  int64_t max_length;
  SampleRng rng;
  GeneratedTokens made = {};
};

class Generation {
 public:
  Generation(const std::vector<std::vector<int64_t>>& prompts, const GenerationRequest& request,
             const std::function<void(size_t, GeneratedTokens)>& done, DecodesSources* sources)
      : prompts_(prompts), request_(request), done_(done), sources_(sources) {}

  void run(SequenceBatch& batch, size_t rows) {
    while (next_prompt_ < prompts_.size() || !rows_.empty()) {
      while (rows_.size() < rows && next_prompt_ < prompts_.size()) {
        start_prompts(batch, rows - rows_.size());
      }
      if (!rows_.empty()) step(batch);
    }
  }

 private:
  /// Starts the next prompt, and with it those after it that are equal, in up to `room` rows: the
  /// prompt is computed once. Prompts of different sources are never equal.
  void start_prompts(SequenceBatch& batch, size_t room) {
    const std::vector<int64_t>& prompt = prompts_[next_prompt_];
    if (new_tokens_of(prompt) == 0) return done_(next_prompt_++, {});
    if (const size_t count = distinct_prompts(room); count > 1) {
      return start_distinct(batch, count);
    }
    const size_t first = rows_.size();
    for (; rows_.size() < first + room && next_prompt_ < prompts_.size(); ++next_prompt_) {
      if (prompts_[next_prompt_] != prompt || (sources_ && rows_.size() > first)) break;
      add_row(next_prompt_);
    }
    if (sources_) sources_->select_sources(std::vector{static_cast<int64_t>(rows_[first].prompt)});
    const at::Tensor logits = batch.add(prompt);
    batch.add_copies(rows_.size() - first - 1);
    advance_from(batch, first, [&](size_t) { return logits; });
  }

  /// The number of next prompts, at most `room`, of which none equals its neighbour. Those of
  /// sources are started one by one: 0.
  size_t distinct_prompts(size_t room) const {
    if (sources_) return 0;
    const size_t end = std::min(prompts_.size(), next_prompt_ + room);
    size_t i = next_prompt_;
    while (i < end && new_tokens_of(prompts_[i]) > 0 &&
           (i + 1 == prompts_.size() || prompts_[i] != prompts_[i + 1])) {
      ++i;
    }
    return i - next_prompt_;
  }

  void start_distinct(SequenceBatch& batch, size_t count) {
    const size_t first = rows_.size();
    std::vector<std::vector<int64_t>> together;
    for (size_t i = 0; i < count; ++i) {
      together.push_back(prompts_[next_prompt_]);
      add_row(next_prompt_++);
    }
    const at::Tensor logits = batch.add_all(std::move(together));
    advance_from(batch, first, [&](size_t i) { return logits[static_cast<int64_t>(i)]; });
  }

  void add_row(size_t prompt) {
    const uint64_t stream =
        request_.streams.empty() ? request_.first_stream + prompt : request_.streams[prompt];
    const auto length = static_cast<int64_t>(prompts_[prompt].size());
    rows_.push_back({prompt, prompts_[prompt], length, length + new_tokens_of(prompts_[prompt]),
                     SampleRng(static_cast<uint64_t>(request_.seed), stream, 0)});
  }

  int64_t new_tokens_of(const std::vector<int64_t>& prompt) const {
    return request_.config.new_tokens(static_cast<int64_t>(prompt.size()),
                                      request_.default_new_tokens);
  }

  /// advance() of the rows from `first` on, of which row first + i has the logits of i.
  template <class LogitsOf>
  void advance_from(SequenceBatch& batch, size_t first, const LogitsOf& logits_of) {
    std::vector<size_t> finished;
    for (size_t row = first; row < rows_.size(); ++row) {
      if (!advance(rows_[row], logits_of(row - first))) finished.push_back(row);
    }
    finish(batch, finished);
  }

  void step(SequenceBatch& batch) {
    std::vector<int64_t> newest;
    std::vector<int64_t> sources;
    for (const Continuation& row : rows_) {
      newest.push_back(row.tokens.back());
      sources.push_back(static_cast<int64_t>(row.prompt));
    }
    if (sources_) sources_->select_sources(sources);
    const at::Tensor logits = batch.next(newest);
    advance_from(batch, 0, [&](size_t i) { return logits[static_cast<int64_t>(i)]; });
  }

  /// Chooses the next token of `row`. Returns whether the row continues.
  bool advance(Continuation& row, const at::Tensor& logits) {
    const auto* values = logits.const_data_ptr<float>();
    std::vector<float> scores(values, values + logits.numel());
    const int64_t token = choose(row, scores);
    if (request_.config.eos_token_id.contains(token)) {
      row.made.end = GenerationEnd::kToken;
      row.made.end_token = token;
      return false;
    }
    row.tokens.push_back(token);
    row.made.tokens.push_back(token);
    if (request_.on_token) request_.on_token(row.prompt, token);
    if (request_.is_stopped && request_.is_stopped(row.tokens)) {
      row.made.end = GenerationEnd::kStopString;
      return false;
    }
    return static_cast<int64_t>(row.tokens.size()) < row.max_length;
  }

  int64_t choose(Continuation& row, std::span<float> scores) const {
    const GenerationConfig& config = request_.config;
    if (!config.remove_invalid_values) check_logits(scores);
    process_logits(config, {row.tokens, row.prompt_length, row.max_length}, scores);
    check_not_suppressed(scores);
    const bool samples = config.do_sample && config.temperature > 0;
    return samples ? sample_token(scores, row.rng) : argmax_token(scores);
  }

  /// `rows` are ascending.
  void finish(SequenceBatch& batch, std::vector<size_t> rows) {
    for (const size_t i : rows) {
      if (sources_) sources_->forget_source(static_cast<int64_t>(rows_[i].prompt));
      done_(rows_[i].prompt, std::move(rows_[i].made));
    }
    std::reverse(rows.begin(), rows.end());
    for (const size_t i : rows) drop(batch, i);
  }

  void drop(SequenceBatch& batch, size_t row) {
    batch.remove(row);
    if (row + 1 < rows_.size()) rows_[row] = std::move(rows_.back());
    rows_.pop_back();
  }

  const std::vector<std::vector<int64_t>>& prompts_;
  const GenerationRequest& request_;
  const std::function<void(size_t, GeneratedTokens)>& done_;
  DecodesSources* sources_;  ///< null: the prompts are all there is
  size_t next_prompt_ = 0;
  std::vector<Continuation> rows_;  ///< as in the batch
};

/// Beam searches of several prompts, whose beams are consecutive rows of the batch.
class BeamGeneration {
 public:
  BeamGeneration(const std::vector<std::vector<int64_t>>& prompts, const GenerationRequest& request,
                 const std::function<void(size_t, GeneratedTokens)>& done, DecodesSources* sources)
      : prompts_(prompts), request_(request), done_(done), sources_(sources) {}

  void run(SequenceBatch& batch, size_t most) {
    size_t next = 0;
    while (next < prompts_.size() || !searches_.empty()) {
      while (searches_.size() < most && next < prompts_.size()) start(batch, next++);
      if (!searches_.empty()) step(batch);
    }
  }

 private:
  struct Search {
    size_t prompt;  ///< index
    BeamSearch beams;
  };

  void start(SequenceBatch& batch, size_t prompt) {
    const std::vector<int64_t>& tokens = prompts_[prompt];
    const auto length = static_cast<int64_t>(tokens.size());
    if (request_.config.new_tokens(length, request_.default_new_tokens) == 0) {
      return done_(prompt, {});
    }
    if (sources_) sources_->select_sources(std::vector{static_cast<int64_t>(prompt)});
    const uint64_t stream =
        request_.streams.empty() ? request_.first_stream + prompt : request_.streams[prompt];
    Search search{prompt, BeamSearch(tokens, request_, stream)};
    const bool continues = search.beams.advance(batch.add(tokens).unsqueeze(0));
    if (!continues) {
      batch.remove(batch.size() - 1);
      return end(search);
    }
    batch.add_copies(search.beams.running().size() - 1);
    searches_.push_back(std::move(search));
  }

  void step(SequenceBatch& batch) {
    std::vector<int64_t> newest;
    for (const Search& search : searches_) {
      for (const Beam& beam : search.beams.running()) newest.push_back(beam.tokens.back());
    }
    select_sources();
    const at::Tensor logits = batch.next(newest);
    std::vector<int64_t> kept;
    std::vector<Search> continuing;
    int64_t first = 0;
    for (Search& search : searches_) {
      const auto rows = static_cast<int64_t>(search.beams.running().size());
      const bool continues = search.beams.advance(logits.narrow(0, first, rows));
      if (!continues) end(search);
      for (const Beam& beam : search.beams.running()) {
        if (continues) kept.push_back(first + beam.source);
      }
      if (continues) continuing.push_back(std::move(search));
      first += rows;
    }
    searches_ = std::move(continuing);
    if (!kept.empty()) return batch.gather(kept);
    while (batch.size() > 0) batch.remove(batch.size() - 1);
  }

  /// Of a single search, its source once: the beams share its keys and values.
  void select_sources() {
    if (!sources_) return;
    std::vector<int64_t> rows;
    for (const Search& search : searches_) {
      const size_t count = searches_.size() == 1 ? 1 : search.beams.running().size();
      rows.insert(rows.end(), count, static_cast<int64_t>(search.prompt));
    }
    sources_->select_sources(rows);
  }

  void end(const Search& search) {
    if (sources_) sources_->forget_source(static_cast<int64_t>(search.prompt));
    done_(search.prompt, search.beams.result());
  }

  const std::vector<std::vector<int64_t>>& prompts_;
  const GenerationRequest& request_;
  const std::function<void(size_t, GeneratedTokens)>& done_;
  DecodesSources* sources_;  ///< null: the prompts are all there is
  std::vector<Search> searches_;
};

/// The token that targets begin with.
int64_t start_token_of(EncoderDecoder& model, const GenerationConfig& config) {
  const std::optional<int64_t> given =
      config.decoder_start_token_id ? config.decoder_start_token_id : config.bos_token_id;
  const int64_t start = given.value_or(model.start_token());
  const int64_t vocab = model.head_weight().size(0);
  if (start >= 0 && start < vocab) return start;
  throw Error(ExitCode::kRecipe,
              text("'decoder_start_token_id' is {}, and the model has {} tokens", start, vocab),
              "set it to the id of a token of the model, or remove it");
}

/// New tokens for which the cache is allocated; it grows for longer texts.
constexpr int64_t kPreallocatedTokens = 1024;

/// Tokens of the longest sequence, with at most kPreallocatedTokens new ones.
int64_t capacity_of(const std::vector<std::vector<int64_t>>& prompts,
                    const GenerationRequest& request) {
  int64_t longest = 0;
  for (const auto& prompt : prompts) {
    const auto length = static_cast<int64_t>(prompt.size());
    const int64_t added = request.config.new_tokens(length, request.default_new_tokens);
    longest = std::max(longest, length + std::min(added, kPreallocatedTokens));
  }
  return longest;
}

}  // namespace

void generate_tokens(LanguageModel& model, const std::vector<std::vector<int64_t>>& prompts,
                     const GenerationRequest& request,
                     const std::function<void(size_t, GeneratedTokens)>& done) {
  request.config.check();
  const at::NoGradGuard no_grad;
  const EvalScope no_dropout(model);
  const auto count = static_cast<int64_t>(prompts.size());
  const int64_t beams = request.config.num_beams;
  const int64_t together = std::max<int64_t>(1, std::min(request.batch_size, count));
  const SequenceBatchOptions options{.rows = together * beams,
                                     .capacity = capacity_of(prompts, request),
                                     .prefill_chunk = request.prefill_chunk,
                                     .cache_dtype = request.cache_dtype,
                                     .window = request.window,
                                     .staged = request.staged};
  SequenceBatch batch(model, options);
  auto* const sources = dynamic_cast<DecodesSources*>(&model);
  if (beams == 1) {
    Generation(prompts, request, done, sources).run(batch, static_cast<size_t>(together));
  } else {
    BeamGeneration(prompts, request, done, sources).run(batch, static_cast<size_t>(together));
  }
  if (request.on_cache) request.on_cache(batch.cache_bytes());
}

GeneratedTokens generate_tokens(LanguageModel& model, const std::vector<int64_t>& prompt,
                                const GenerationRequest& request) {
  GeneratedTokens out;
  generate_tokens(model, std::vector<std::vector<int64_t>>{prompt}, request,
                  [&](size_t, GeneratedTokens made) { out = std::move(made); });
  return out;
}

void generate_targets(EncoderDecoder& model, const std::vector<std::vector<int64_t>>& sources,
                      const GenerationRequest& request,
                      const std::function<void(size_t, GeneratedTokens)>& done) {
  const at::NoGradGuard no_grad;
  const EvalScope no_dropout(model);
  const at::Device device = model.head_weight().device();
  const int64_t start = start_token_of(model, request.config);
  auto* together = dynamic_cast<EncodesSources*>(&model);
  if (together) {
    std::vector<at::Tensor> all;
    for (const auto& source : sources) {
      all.push_back(at::tensor(at::ArrayRef<int64_t>(source.data(), source.size())).to(device));
    }
    const auto decoder = together->decoder_of_sources(std::move(all));
    const std::vector<std::vector<int64_t>> starts(sources.size(), {start});
    return generate_tokens(*decoder, starts, request, done);
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    const at::Tensor source =
        at::tensor(at::ArrayRef<int64_t>(sources[i].data(), sources[i].size())).to(device);
    const std::unique_ptr<LanguageModel> decoder = model.decoder_of(source);
    GenerationRequest one = request;
    one.first_stream = request.streams.empty() ? request.first_stream + i : request.streams[i];
    one.streams.clear();
    if (request.on_token) {
      one.on_token = [&request, i](size_t, int64_t token) { request.on_token(i, token); };
    }
    done(i, generate_tokens(*decoder, std::vector<int64_t>{start}, one));
  }
}

}  // namespace accel
