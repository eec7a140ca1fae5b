// Top-k accuracy.
#include <algorithm>

#include "core/base/error.h"
#include "core/recipe/registry.h"
#include "train/metrics/predictions.h"

namespace accel {
namespace {

struct TopKOptions {
  std::vector<int64_t> k = {5};
};

class TopK final : public Metric {
 public:
  static constexpr auto kName = "top_k";
  static constexpr const char* kHintFor[] = {"topk", "top5", "top_5"};
  static constexpr auto kSummary = "Share of samples with the label among the k likeliest classes.";

  static Schema<TopKOptions> schema() {
    return Schema<TopKOptions>()
        .field("k", &TopKOptions::k,
               "Number of top predictions that may contain the label; each k is a metric 'top_K'.",
               each(at_least<int64_t>(1)))
        .check([](const TopKOptions& options, const Node& node, Reading& reading) {
          if (options.k.empty()) reading.problems.error(node.where, "'k' must not be empty");
        });
  }

  TopK(const TopKOptions& options, const MetricContext& context)
      : k_(options.k), largest_(*std::max_element(k_.begin(), k_.end())), sums_(k_.size() + 1, 0) {
    const int64_t classes = class_count(kName, context.data);
    if (largest_ > classes) {
      throw Error(ExitCode::kRecipe, "'k' of the metric 'top_k' is " + std::to_string(largest_) +
                                         ", but the data has " + std::to_string(classes) +
                                         " classes");
    }
  }

  void update(const EvalStep& step) override {
    const at::Tensor& targets = step.batch.targets;
    const at::Tensor guesses = std::get<1>(step.output.topk(largest_, 1));
    const at::Tensor hits = guesses.eq(targets.unsqueeze(1));
    for (size_t i = 0; i < k_.size(); ++i) sums_[i] += total(hits.narrow(1, 0, k_[i]));
    sums_.back() += static_cast<double>(targets.numel());
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    std::vector<std::pair<std::string, double>> all;
    for (size_t i = 0; i < k_.size(); ++i) {
      all.emplace_back("top_" + std::to_string(k_[i]), sums_[i] / sums_.back());
    }
    return all;
  }
  bool higher_is_better() const override { return true; }

 private:
  std::vector<int64_t> k_;
  int64_t largest_;
  std::vector<double> sums_;  ///< hits for each k, then samples
};

const Register<TopK> top_k;

}  // namespace
}  // namespace accel
