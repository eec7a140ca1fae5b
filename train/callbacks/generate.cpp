// Logs generated text samples during training.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/api/callback.h"
#include "core/api/text_generator.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct GenerateOptions : SamplingOptions {
  std::vector<std::string> prompts;
  Auto<Duration> every;
};

Rule<Duration> counted_in_steps() {
  return {[](const Duration& v) { return v.unit != Duration::Unit::kSeconds && v.value > 0; },
          "a number of steps, epochs, samples or tokens, or a share of the run", ""};
}

template <class T>
constexpr T GenerateOptions::*sampling(T SamplingOptions::*member) {
  return static_cast<T GenerateOptions::*>(member);
}

/// Samples depend on the weights and the options alone: the run's random numbers are unaffected,
/// and a resumed run generates the same texts.
class Generate final : public Callback {
 public:
  static constexpr auto kName = "generate";
  static constexpr auto kSummary =
      "Logs a language model's completions of prompts, or an encoder-decoder's targets.";

  static Schema<GenerateOptions> schema() {
    return Schema<GenerateOptions>()
        .field("prompts", &GenerateOptions::prompts,
               "Prompts, each completed and logged separately.")
        .required()
        .field("every", &GenerateOptions::every,
               "Period of completions, not in time; auto: after each evaluation.",
               if_given<Auto>(counted_in_steps()))
        .field("max_new_tokens", sampling(&SamplingOptions::max_new_tokens),
               "Maximum number of generated tokens.", at_least<int64_t>(1))
        .field("temperature", sampling(&SamplingOptions::temperature),
               "Sampling temperature. Lower is less random; 0 is greedy.", at_least(0.0))
        .field("top_k", sampling(&SamplingOptions::top_k),
               "Sample from the k likeliest tokens; 0: from all.", at_least<int64_t>(0))
        .field("top_p", sampling(&SamplingOptions::top_p),
               "Sample from the likeliest tokens with this total probability.", between(1e-9, 1.0))
        .field("seed", sampling(&SamplingOptions::seed),
               "Sampling seed, the same each time, so that texts differ by the weights alone.");
  }

  Generate(const GenerateOptions& options, const CallbackContext& context)
      : options_(options), texts_(context.texts) {
    if (!texts_) {
      throw Error(ExitCode::kRecipe, "'generate' needs a language model and text data",
                  "use a model such as gpt or llama, on data with a tokenizer or of type text");
    }
    if (options.every) {
      try {
        every_ = std::max<int64_t>(1, context.length.steps(*options.every));
      } catch (const std::invalid_argument& error) {
        throw Error(ExitCode::kRecipe, error.what(), "give 'every' in steps or epochs");
      }
    } else if (context.metrics.empty()) {
      throw Error(ExitCode::kRecipe, "'generate' runs after evaluations, but there are none",
                  "give it 'every', or the recipe 'data.eval' or 'data.split'");
    }
    for (const std::string& prompt : options_.prompts) texts_->check_prompt(prompt);
  }

  bool supports_swapping() const override { return true; }

  void on_step(int64_t step) override {
    if (every_ > 0 && step % every_ == 0) write();
  }
  void on_eval(int64_t /*step*/, const std::map<std::string, double>& /*results*/) override {
    if (every_ == 0) write();
  }
  std::vector<CallbackText> take_texts() override { return std::exchange(written_, {}); }

 private:
  void write() {
    for (size_t i = 0; i < options_.prompts.size(); ++i) {
      const std::string& prompt = options_.prompts[i];
      const std::string before = texts_->continues_prompts() ? prompt : prompt + " -> ";
      written_.push_back(
          {text("generated/{}", i), before + texts_->generate(prompt, options_, i).text});
    }
  }

  GenerateOptions options_;
  std::shared_ptr<TextGenerator> texts_;
  int64_t every_ = 0;  // steps; 0: after evaluations
  std::vector<CallbackText> written_;
};

const Register<Generate> generate;

}  // namespace
}  // namespace accel
