// ROUGE (Lin 2004): overlap of n-grams and of the longest common subsequence, as the package
// rouge_score computes it without a stemmer.
#include <algorithm>
#include <array>
#include <map>

#include "core/recipe/registry.h"
#include "text/unicode.h"
#include "train/metrics/text_metric.h"

namespace accel {
namespace {

struct RougeOptions {};

using Words = std::vector<std::string>;

/// Runs of a to z and 0 to 9 in lower case.
Words rouge_words(const std::string& text) {
  Words words;
  std::string word;
  for (const char c : lower_case(lossy_utf8(text)) + ' ') {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

/// The harmonic mean of the shares of `common` in both texts; 0 where nothing is common.
double f_measure(int64_t common, int64_t predicted, int64_t wanted) {
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(predicted);
  const double recall = static_cast<double>(common) / static_cast<double>(wanted);
  return 2 * precision * recall / (precision + recall);
}

std::map<Words, int64_t> grams_of(const Words& words, size_t size) {
  std::map<Words, int64_t> counts;
  for (size_t i = 0; i + size <= words.size(); ++i) {
    ++counts[Words(words.begin() + static_cast<ptrdiff_t>(i),
                   words.begin() + static_cast<ptrdiff_t>(i + size))];
  }
  return counts;
}

double gram_score(const Words& prediction, const Words& reference, size_t size) {
  const auto predicted = grams_of(prediction, size), wanted = grams_of(reference, size);
  int64_t common = 0;
  for (const auto& [gram, count] : predicted) {
    const auto found = wanted.find(gram);
    if (found != wanted.end()) common += std::min(count, found->second);
  }
  const auto grams = [size](const Words& words) {
    return static_cast<int64_t>(words.size()) - static_cast<int64_t>(size) + 1;
  };
  return f_measure(common, grams(prediction), grams(reference));
}

int64_t common_subsequence(const Words& a, const Words& b) {
  std::vector<int64_t> longest(b.size() + 1, 0);
  for (const std::string& word : a) {
    int64_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t above = longest[j + 1];
      longest[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, longest[j]);
      diagonal = above;
    }
  }
  return longest.back();
}

class Rouge final : public TextMetric {
 public:
  static constexpr auto kName = "rouge";
  static constexpr const char* kHintFor[] = {"rouge1", "rouge2", "rougeL", "rouge_l"};
  static constexpr auto kSummary =
      "F-measures of common words, pairs of words and subsequences of generated texts.";

  static Schema<RougeOptions> schema() { return {}; }

  explicit Rouge(const RougeOptions&) {}

  void add(const std::string& prediction, const std::string& reference) override {
    const Words predicted = rouge_words(prediction), wanted = rouge_words(reference);
    sums_[0] += gram_score(predicted, wanted, 1);
    sums_[1] += gram_score(predicted, wanted, 2);
    sums_[2] +=
        f_measure(common_subsequence(predicted, wanted), static_cast<int64_t>(predicted.size()),
                  static_cast<int64_t>(wanted.size()));
    sums_[3] += 1;
  }
  std::vector<double>& sums() override { return sums_; }
  /// The means over the samples, in [0, 1].
  std::vector<std::pair<std::string, double>> values() const override {
    return {{"rouge1", sums_[0] / sums_[3]},
            {"rouge2", sums_[1] / sums_[3]},
            {"rougeL", sums_[2] / sums_[3]}};
  }

 private:
  std::vector<double> sums_ = {0, 0, 0, 0};  ///< of the three scores; texts
};

const Register<Rouge> rouge;

}  // namespace
}  // namespace accel
