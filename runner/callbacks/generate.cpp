// Lets a language model write while it is trained.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/callback.h"
#include "core/error.h"
#include "core/registry.h"
#include "core/text_generator.h"

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

/// What is drawn is a function of the weights and the options: the run's own numbers are the same
/// without it, and a resumed run writes what the whole one would.
class Generate final : public Callback {
 public:
  static constexpr auto kName = "generate";
  static constexpr auto kSummary = "Logs what a language model writes behind some prompts.";

  static Schema<GenerateOptions> schema() {
    return Schema<GenerateOptions>()
        .field("prompts", &GenerateOptions::prompts, "Texts to go on from, each logged by itself.")
        .required()
        .field("every", &GenerateOptions::every,
               "How often; auto: behind each evaluation. A time is none.",
               if_given<Auto>(counted_in_steps()))
        .field("max_new_tokens", sampling(&SamplingOptions::max_new_tokens),
               "Tokens to add at most.", at_least<int64_t>(1))
        .field("temperature", sampling(&SamplingOptions::temperature),
               "Below 1 likely tokens become likelier; 0 takes always the likeliest.",
               at_least(0.0))
        .field("top_k", sampling(&SamplingOptions::top_k),
               "Choose among so many of the likeliest tokens; 0: among all.", at_least<int64_t>(0))
        .field("top_p", sampling(&SamplingOptions::top_p),
               "Choose among the likeliest tokens that together have this share.",
               between(1e-9, 1.0))
        .field("seed", sampling(&SamplingOptions::seed),
               "Of what is drawn, the same each time: texts differ by what was learned.");
  }

  Generate(const GenerateOptions& options, const CallbackContext& context)
      : options_(options), texts_(context.texts) {
    if (!texts_) {
      throw Error(
          ExitCode::kRecipe, "'generate' needs a language model and data that is text",
          "it is for models such as gpt and llama, on data with a tokenizer or of type text");
    }
    if (options.every) {
      try {
        every_ = std::max<int64_t>(1, context.length.steps(*options.every));
      } catch (const std::invalid_argument& error) {
        throw Error(ExitCode::kRecipe, error.what(), "give 'every' in steps or epochs");
      }
    } else if (context.metrics.empty()) {
      throw Error(ExitCode::kRecipe, "'generate' writes behind evaluations, but there are none",
                  "give it 'every', or the recipe 'data.eval'");
    }
    // A prompt without tokens is found before the first step.
    SamplingOptions one = options_;
    one.max_new_tokens = 1;
    for (const std::string& prompt : options_.prompts) texts_->generate(prompt, one, 0);
  }

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
      written_.push_back(
          {"generated/" + std::to_string(i), prompt + texts_->generate(prompt, options_, i).text});
    }
  }

  GenerateOptions options_;
  std::shared_ptr<TextGenerator> texts_;
  int64_t every_ = 0;  // steps; 0: behind evaluations
  std::vector<CallbackText> written_;
};

const Register<Generate> generate;

}  // namespace
}  // namespace accel
