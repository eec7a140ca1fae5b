// Sequence-to-sequence learning: cross-entropy on the tokens of target sequences.
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/api/encoder_decoder.h"
#include "core/api/target_sequences.h"
#include "core/api/targets.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "kernels/cross_entropy.h"
#include "kernels/cuda_vocabulary_loss.h"
#include "train/tasks/chunked_cross_entropy.h"
#include "train/tasks/generates_targets.h"
#include "train/tasks/model_needs.h"
#include "train/tasks/token_scores.h"

namespace accel {
namespace {

struct Seq2SeqOptions {
  Auto<int64_t> chunk;
  bool predict_with_generate = false;
  Auto<int64_t> generation_max_length;
  int64_t generation_num_beams = 1;
};

EncoderDecoder& encoder_decoder(Model& model) {
  if (auto* found = dynamic_cast<EncoderDecoder*>(&model)) return *found;
  throw Error(ExitCode::kRecipe,
              "the task 'seq2seq' needs an encoder-decoder, which this model is not",
              "use a model such as 't5', or the task 'causal_lm'");
}

class Seq2Seq final : public Task, public WholeSequences, public GeneratesTargets {
 public:
  static constexpr auto kName = "seq2seq";
  static constexpr auto kSummary = "Cross-entropy on the target tokens of an encoder-decoder.";

  static Schema<Seq2SeqOptions> schema();

  Seq2Seq(const Seq2SeqOptions& options, const TaskContext& context) : options_(options) {
    const DataShape& data = context.data;
    if (!data.input.empty() && !has_target_sequences(data)) {
      throw Error(ExitCode::kRecipe,
                  text("the task 'seq2seq' needs a source and a target sequence per sample, but "
                       "a sample of the data is {} {} with the target {} {}",
                       name_of(data.input_type), to_string(data.input), name_of(data.target_type),
                       to_string(data.target)),
                  "use data of type 'text_to_text'");
    }
    const int64_t longest = data.target.empty() ? 0 : data.target.front();
    max_length_ = options.generation_max_length.value_or(longest + 1);
  }

  double weight(const Batch& batch) const override { return counted_targets(batch); }
  bool needs_whole_logits() const override { return false; }

  /// As transformers' model: the mean over the target tokens of a batch.
  at::Tensor loss(Model& model, const Batch& batch) override {
    EncoderDecoder& network = encoder_decoder(model);
    const VocabularyHead head = head_of(network, batch);
    const int64_t chunk = chunk_for(head);
    // Of no tokens too.
    if (has_cuda_vocabulary_loss(head.targets.device())) return chunked_cross_entropy(head, chunk);
    // The mean over no tokens is NaN, which must not reach the weights.
    if (weight(batch) == 0) return head.hidden.to(at::kFloat).sum().mul(0);
    if (chunk < head.targets.numel() || head.vocabulary.ranks) {
      return chunked_cross_entropy(head, chunk);
    }
    return cross_entropy(logits_of(head), head.targets, kIgnoredTarget);
  }

  /// The output is the likeliest token at each position, int64 [batch, target length], or with
  /// `predict_with_generate` the generated tokens, padded with kIgnoredTarget.
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const VocabularyHead head = head_of(encoder_decoder(model), batch);
    const ScoredTokens scored = score_by_chunks(head, chunk_for(head));
    Evaluation result{scored.loss, scored.predicted.view_as(batch.targets)};
    if (weight(batch) == 0) result.loss.zero_();
    if (options_.predict_with_generate) result.output = generated(batch);
    return result;
  }

  std::vector<std::string> metrics() const override {
    if (options_.predict_with_generate) return {"perplexity", "rouge", "bleu"};
    return {"perplexity", "accuracy", "exact_match"};
  }
  std::vector<std::string> default_metrics() const override {
    if (options_.predict_with_generate) return {"perplexity", "rouge", "bleu"};
    return {"perplexity"};
  }

  bool generates_targets() const override { return options_.predict_with_generate; }
  CompletionOptions target_options() const override {
    CompletionOptions options;
    options.temperature = 0;
    options.max_new_tokens = std::max<int64_t>(1, max_length_ - 1);
    options.num_beams = options_.generation_num_beams;
    return options;
  }
  void set_sampler(std::shared_ptr<CompletionSampler> sampler) override {
    sampler_ = std::move(sampler);
  }

 private:
  static VocabularyHead head_of(EncoderDecoder& model, const Batch& batch) {
    const auto* divided = dynamic_cast<const TensorParallel*>(&model);
    return {.hidden = model.hidden(batch).flatten(0, 1),
            .weight = model.head_weight(),
            .targets = batch.targets.flatten(),
            .vocabulary = divided ? divided->vocabulary() : DividedVocabulary()};
  }
  static at::Tensor logits_of(const VocabularyHead& head) {
    return at::linear(head.hidden, head.weight).to(at::kFloat);
  }
  int64_t chunk_for(const VocabularyHead& head) const {
    return options_.chunk.value_or(std::min(
        tokens_per_chunk(head.weight.size(0), head.weight.device()), head.targets.numel()));
  }

  /// int64 [batch, longest of them].
  at::Tensor generated(const Batch& batch) const {
    const std::vector<SampledCompletion> made = sample_targets(*sampler_, target_options(), batch);
    size_t longest = 1;
    for (const SampledCompletion& one : made) longest = std::max(longest, one.tokens.size());
    at::Tensor out = at::full({batch.size(), static_cast<int64_t>(longest)}, kIgnoredTarget,
                              at::TensorOptions().dtype(at::kLong));
    for (size_t row = 0; row < made.size(); ++row) {
      std::copy(made[row].tokens.begin(), made[row].tokens.end(),
                out[static_cast<int64_t>(row)].mutable_data_ptr<int64_t>());
    }
    return out;
  }

  Seq2SeqOptions options_;
  int64_t max_length_;
  std::shared_ptr<CompletionSampler> sampler_;
};

Schema<Seq2SeqOptions> Seq2Seq::schema() {
  using Options = Seq2SeqOptions;
  return Schema<Options>()
      .field("chunk", &Options::chunk,
             "Tokens whose logits are in memory at a time; auto: as many as fit in 64 MiB, or in 1 "
             "GiB "
             "on a GPU. Fewer tokens take less memory.",
             if_given<Auto>(at_least<int64_t>(1)))
      .field("predict_with_generate", &Options::predict_with_generate,
             "Whether evaluations also generate the targets, for the metrics `rouge` and `bleu`; "
             "false: they compute the loss alone.")
      .field("generation_max_length", &Options::generation_max_length,
             "Tokens of a generated target at most, with the start token; auto: as many as the "
             "data's longest target.",
             if_given<Auto>(at_least<int64_t>(2)))
      .field("generation_num_beams", &Options::generation_num_beams,
             "Beams of the search for targets; 1: greedy decoding.", between<int64_t>(1, 1000))
      .hint_for({"num_beams"})
      .check([](const Options& options, const Node& node, Reading& reading) {
        if (options.predict_with_generate) return;
        const std::pair<bool, const char*> generation[] = {
            {options.generation_max_length.value.has_value(), "generation_max_length"},
            {options.generation_num_beams != 1, "generation_num_beams"}};
        for (const auto& [given, name] : generation) {
          if (!given) continue;
          reading.problems.error(node.where,
                                 text("'{}' has no effect without 'predict_with_generate'", name),
                                 "set 'predict_with_generate: true', or leave it out");
        }
      });
}

const Register<Seq2Seq> seq2seq;

}  // namespace
}  // namespace accel
