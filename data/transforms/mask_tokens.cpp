// Masks tokens for masked language modeling.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/packed_sequences.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct MaskTokensOptions {
  double share = 0.15;
  double mask = 0.8;
  double random = 0.1;
};

class MaskTokens final : public Transform {
 public:
  static constexpr auto kName = "mask_tokens";
  static constexpr auto kSummary =
      "Masks random tokens, for the task 'masked_lm'; in eval data the same ones each time.";

  static Schema<MaskTokensOptions> schema() {
    return Schema<MaskTokensOptions>()
        .field("share", &MaskTokensOptions::share,
               "Chance that a token is to be guessed; of each text one is at least.",
               between(0.0, 1.0))
        .field("mask", &MaskTokensOptions::mask,
               "Fraction of these that is replaced by the tokenizer's mask token.",
               between(0.0, 1.0))
        .field("random", &MaskTokensOptions::random,
               "Fraction of these that is replaced by a random token; the others are unchanged.",
               between(0.0, 1.0))
        .check([](const MaskTokensOptions& options, const Node& node, Reading& reading) {
          if (options.mask + options.random <= 1.0) return;
          reading.problems.error(node.where,
                                 "'mask' and 'random' are shares of one whole, but "
                                 "together more than 1");
        });
  }

  MaskTokens(const MaskTokensOptions& options, const TransformContext& context)
      : options_(options), shape_(context.shape) {
    if (shape_.vocab == 0 || shape_.input.size() != 1) {
      throw Error(
          ExitCode::kRecipe,
          text("the transform 'mask_tokens' requires tokens, but a sample of the data is {} {}",
               name_of(shape_.input_type), to_string(shape_.input)));
    }
    if (!shape_.mask_token) {
      throw Error(ExitCode::kRecipe,
                  "the transform 'mask_tokens' requires a mask token, and the tokenizer of the "
                  "data has none",
                  "'accel-run tokenizer train' adds one to a WordPiece tokenizer");
    }
    shape_.target = shape_.input;
    shape_.target_type = DType::kI64;
    shape_.classes = 0;
    shape_.labels = {};
  }

  Sample apply(Sample sample, SampleRng& rng) const override {
    Array input = Array::of<int64_t>(DType::kI64, sample.input.shape(), sample.input.as<int64_t>());
    Array target(DType::kI64, input.shape());
    const auto tokens = input.mutable_as<int64_t>();
    const auto wanted = target.mutable_as<int64_t>();
    std::fill(wanted.begin(), wanted.end(), kIgnoredTarget);
    for (size_t first = 0, end = 0; first < tokens.size(); first = end) {
      end = end_of_text(sample.segments, first, tokens.size());
      hide_some(tokens.subspan(first, end - first), wanted.subspan(first, end - first), rng);
    }
    sample.input = std::move(input);
    sample.target = std::move(target);
    return sample;
  }

  DataShape shape() const override { return shape_; }

 private:
  bool is_special(int64_t token) const {
    const auto& special = shape_.special_tokens;
    return std::find(special.begin(), special.end(), token) != special.end();
  }

  /// Of packed texts, where the one that begins at `first` ends.
  size_t end_of_text(const Array& segments, size_t first, size_t size) const {
    if (!is_packed(shape_)) return size;
    const auto numbers = segments.as<int64_t>();
    size_t end = first + 1;
    while (end < size && numbers[end] == numbers[first]) ++end;
    return end;
  }

  /// In one text.
  void hide_some(std::span<int64_t> tokens, std::span<int64_t> wanted, SampleRng& rng) const {
    std::vector<size_t> others;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (is_special(tokens[i])) continue;
      if (rng.uniform() < options_.share) {
        hide(tokens[i], wanted[i], rng);
      } else {
        others.push_back(i);
      }
    }
    const auto hidden = [](int64_t token) { return token != kIgnoredTarget; };
    if (!others.empty() && std::none_of(wanted.begin(), wanted.end(), hidden)) {
      const size_t i = others[rng.below(others.size())];
      hide(tokens[i], wanted[i], rng);
    }
  }

  void hide(int64_t& token, int64_t& wanted, SampleRng& rng) const {
    wanted = token;
    const double draw = rng.uniform();
    if (draw < options_.mask) {
      token = *shape_.mask_token;
    } else if (draw < options_.mask + options_.random) {
      token = static_cast<int64_t>(rng.below(static_cast<uint64_t>(shape_.vocab)));
    }
  }

  MaskTokensOptions options_;
  DataShape shape_;
};

const Register<MaskTokens> mask_tokens;

}  // namespace
}  // namespace accel
