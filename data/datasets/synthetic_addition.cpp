// Sums as text, "12+345=357.": a language task with verifiable answers.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/targets.h"
#include "core/recipe/registry.h"
#include "data/datasets/synthetic.h"

namespace accel {
namespace {

// A character's position is its token. The last one ends an answer and pads.
constexpr std::string_view kAlphabet = "0123456789+=.";
constexpr char kEnd = '.';
constexpr int64_t kEvalOneIn = 10;  // one of this many pairs is reserved for evaluation

struct SyntheticAdditionOptions {
  int64_t length = 20000;
  int64_t digits = 2;
  bool padded = true;
  bool reversed = true;
};

int64_t power_of_ten(int64_t exponent) {
  int64_t power = 1;
  for (int64_t i = 0; i < exponent; ++i) power *= 10;
  return power;
}

class SyntheticAddition final : public Dataset {
 public:
  static constexpr auto kName = "synthetic/addition";
  static constexpr auto kSummary =
      "Sums of two numbers, character by character; only the answer is to be predicted.";

  static Schema<SyntheticAdditionOptions> schema() {
    using Options = SyntheticAdditionOptions;
    return Schema<Options>()
        .field("length", &Options::length, "Samples.", at_least<int64_t>(1))
        .field("digits", &Options::digits, "Most digits of each number.", between<int64_t>(2, 8))
        .field("padded", &Options::padded,
               "Write leading zeros, so that each place always means the same.")
        .field("reversed", &Options::reversed,
               "Write the answer from its last digit on, the order in which carries arise.");
  }

  SyntheticAddition(const SyntheticAdditionOptions& options, const DatasetContext& context)
      : options_(options),
        context_(context),
        numbers_(power_of_ten(options.digits)),
        // Two numbers, two signs, a sum with one more digit; the final token has no successor.
        length_(3 * options.digits + 3) {}

  int64_t size() const override { return options_.length; }

  Sample sample(int64_t index) const override {
    const std::string sum = sum_of(index);
    const size_t answer = sum.find('=') + 1;
    const size_t end = sum.size();
    Array input(DType::kI64, {length_});
    Array target(DType::kI64, {length_});
    for (size_t i = 0; i < static_cast<size_t>(length_); ++i) {
      input.mutable_as<int64_t>()[i] = token(sum, i);
      const bool asked = i + 1 >= answer && i + 1 <= end;
      target.mutable_as<int64_t>()[i] = asked ? token(sum, i + 1) : kIgnoredTarget;
    }
    return {input, target};
  }

  DataShape shape() const override {
    DataShape shape{.input = {length_},
                    .input_type = DType::kI64,
                    .target = {length_},
                    .vocab = static_cast<int64_t>(kAlphabet.size())};
    for (const char c : kAlphabet) shape.labels.emplace_back(1, c);
    return shape;
  }

  std::string fingerprint() const override {
    return synthetic_fingerprint<SyntheticAddition>(options_, context_);
  }

 private:
  /// "12+345=357", without the end token.
  std::string sum_of(int64_t index) const {
    SampleRng rng = synthetic_rng(context_, index);
    int64_t a = 0, b = 0;
    do {
      a = static_cast<int64_t>(rng.below(static_cast<uint64_t>(numbers_)));
      b = static_cast<int64_t>(rng.below(static_cast<uint64_t>(numbers_)));
    } while (is_for_evaluation(a, b) == context_.train);
    std::string answer = written(a + b, options_.digits + 1);
    if (options_.reversed) answer.assign(answer.rbegin(), answer.rend());
    return written(a, options_.digits) + "+" + written(b, options_.digits) + "=" + answer;
  }

  bool is_for_evaluation(int64_t a, int64_t b) const {
    SampleRng rng(context_.seed, static_cast<uint64_t>(a), static_cast<uint64_t>(b));
    return rng.below(kEvalOneIn) == 0;
  }

  std::string written(int64_t number, int64_t digits) const {
    std::string text = std::to_string(number);
    const auto width = static_cast<size_t>(digits);
    if (options_.padded && text.size() < width) text.insert(0, width - text.size(), '0');
    return text;
  }

  static int64_t token(std::string_view sum, size_t at) {
    return static_cast<int64_t>(kAlphabet.find(at < sum.size() ? sum[at] : kEnd));
  }

  SyntheticAdditionOptions options_;
  DatasetContext context_;
  int64_t numbers_;  // upper bound of the numbers
  int64_t length_;   // input length in tokens
};

const Register<SyntheticAddition> synthetic_addition;

}  // namespace
}  // namespace accel
