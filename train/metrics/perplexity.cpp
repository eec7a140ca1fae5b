// Perplexity: the exponential of the mean loss per token.
#include <cmath>

#include "core/api/metric.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct PerplexityOptions {};

class Perplexity final : public Metric {
 public:
  static constexpr auto kName = "perplexity";
  static constexpr const char* kHintFor[] = {"ppl"};
  static constexpr auto kSummary = "The exponential of the mean loss per token.";

  static Schema<PerplexityOptions> schema() { return {}; }

  explicit Perplexity(const PerplexityOptions&) {}

  void update(const EvalStep& step) override {
    sums_[0] += step.loss * step.weight;
    sums_[1] += step.weight;
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    return {{kName, std::exp(sums_[0] / sums_[1])}};
  }
  bool higher_is_better() const override { return false; }

 private:
  std::vector<double> sums_ = {0, 0};  ///< sum of losses, tokens
};

const Register<Perplexity> perplexity;

}  // namespace
}  // namespace accel
