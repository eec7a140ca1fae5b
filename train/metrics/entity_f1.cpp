// Precision, recall and F1 of whole named entities, as seqeval.
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "train/metrics/predictions.h"

namespace accel {
namespace {

struct EntityF1Options {};

/// A BIO label: "B-PER" is the prefix 'B' and the kind "PER"; "O" has no kind.
struct EntityTag {
  char prefix = 'O';
  std::string kind;

  bool outside() const { return prefix == 'O'; }
};

std::optional<EntityTag> entity_tag(const std::string& label) {
  if (label == "O") return EntityTag{};
  const bool known = label.size() > 2 && label[1] == '-' &&
                     std::string_view("BIES").find(label[0]) != std::string_view::npos;
  if (!known) return std::nullopt;
  return EntityTag{label[0], label.substr(2)};
}

/// Index of the first word, of the last word (inclusive), and the kind.
using Entity = std::tuple<size_t, size_t, std::string>;

bool entity_ends(const EntityTag& before, const EntityTag& now) {
  if (before.outside()) return false;
  if (before.prefix == 'E' || before.prefix == 'S' || before.kind != now.kind) return true;
  return now.prefix == 'B' || now.prefix == 'S' || now.outside();
}

bool entity_begins(const EntityTag& before, const EntityTag& now) {
  if (now.outside()) return false;
  if (now.prefix == 'B' || now.prefix == 'S' || before.kind != now.kind) return true;
  return before.outside() || before.prefix == 'E' || before.prefix == 'S';
}

/// The entities of a row of labels, in order. An I- label without entity before it begins one.
std::vector<Entity> entities_of(const std::vector<const EntityTag*>& tags) {
  static const EntityTag kOutside;
  std::vector<Entity> out;
  size_t first = 0;
  const EntityTag* before = &kOutside;
  for (size_t i = 0; i <= tags.size(); ++i) {
    const EntityTag& now = i < tags.size() ? *tags[i] : kOutside;
    if (entity_ends(*before, now)) out.emplace_back(first, i - 1, before->kind);
    if (entity_begins(*before, now)) first = i;
    before = &now;
  }
  return out;
}

class EntityF1 final : public Metric {
 public:
  static constexpr auto kName = "entity_f1";
  static constexpr const char* kHintFor[] = {"seqeval"};
  static constexpr auto kSummary =
      "Precision, recall and F1 of entities with labels B-KIND, I-KIND and O.";

  static Schema<EntityF1Options> schema() { return {}; }

  EntityF1(const EntityF1Options&, const MetricContext& context) {
    const DataShape& data = context.data;
    for (const std::string& label : data.labels) {
      const std::optional<EntityTag> tag = entity_tag(label);
      if (!tag) refuse(text("but the data has '{}'", label));
      tags_.push_back(*tag);
    }
    if (tags_.empty()) refuse("but the data has no label names");
  }

  void update(const EvalStep& step) override {
    const at::Tensor choices = step.output.cpu(), targets = step.batch.targets.cpu();
    const at::Tensor& segments = step.batch.segments;
    const at::Tensor texts = segments.defined() ? segments.cpu() : at::zeros_like(targets);
    for (int64_t row = 0; row < targets.size(0); ++row) {
      count(choices[row], targets[row], texts[row]);
    }
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    const auto [right, chosen, actual] = std::tie(sums_[0], sums_[1], sums_[2]);
    const auto share = [](double part, double all) { return all > 0 ? part / all : 0.0; };
    return {{kName, share(2 * right, chosen + actual)},
            {"entity_precision", share(right, chosen)},
            {"entity_recall", share(right, actual)}};
  }
  bool higher_is_better() const override { return true; }

 private:
  [[noreturn]] static void refuse(const std::string& problem) {
    throw Error(
        ExitCode::kRecipe,
        text("the metric 'entity_f1' needs labels such as 'O', 'B-PER' and 'I-PER', {}", problem),
        "name them with 'labels', or use the metric 'f1'");
  }

  const EntityTag* tag_of(int64_t label) const { return &tags_.at(static_cast<size_t>(label)); }

  /// Adds one row of labels, int64 and contiguous, without masked positions. Entities end with
  /// their text, of which `texts` is the number.
  void count(const at::Tensor& choices, const at::Tensor& targets, const at::Tensor& texts) {
    static const EntityTag kBetween;
    const int64_t* choice = choices.const_data_ptr<int64_t>();
    const int64_t* target = targets.const_data_ptr<int64_t>();
    const int64_t* text = texts.const_data_ptr<int64_t>();
    std::vector<const EntityTag*> chosen, actual;
    for (int64_t i = 0; i < targets.size(0); ++i) {
      if (i > 0 && text[i] != text[i - 1]) {
        chosen.push_back(&kBetween);
        actual.push_back(&kBetween);
      }
      if (target[i] == kIgnoredTarget) continue;
      chosen.push_back(tag_of(choice[i]));
      actual.push_back(tag_of(target[i]));
    }
    const std::vector<Entity> found = entities_of(chosen), there = entities_of(actual);
    std::vector<Entity> both;
    std::set_intersection(found.begin(), found.end(), there.begin(), there.end(),
                          std::back_inserter(both));
    sums_[0] += static_cast<double>(both.size());
    sums_[1] += static_cast<double>(found.size());
    sums_[2] += static_cast<double>(there.size());
  }

  std::vector<EntityTag> tags_;           ///< by label
  std::vector<double> sums_ = {0, 0, 0};  ///< entities: correct, predicted, actual
};

const Register<EntityF1> entity_f1;

}  // namespace
}  // namespace accel
