// Recall of retrieval between images and texts.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "core/api/dual_encoder.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"
#include "train/metrics/sample_metric.h"

namespace accel {
namespace {

struct RetrievalRecallOptions {
  std::vector<int64_t> k = {1, 5};
};

/// Columns of a row before its embeddings: digests that are equal for equal images and texts.
constexpr int64_t kImageKey = 0, kTextKey = 1, kKeys = 2;
/// Similarities that are in memory at a time.
constexpr int64_t kSimilarities = int64_t{1} << 22;

/// A digest of each row that a double holds exactly.
at::Tensor row_digests(const at::Tensor& rows) {
  const at::Tensor local = rows.cpu().contiguous();
  const int64_t count = local.size(0);
  const auto bytes = static_cast<size_t>(local.nbytes()) / static_cast<size_t>(count);
  at::Tensor out = at::empty({count}, at::TensorOptions().dtype(at::kDouble));
  const char* from = static_cast<const char*>(local.const_data_ptr());
  double* to = out.mutable_data_ptr<double>();
  constexpr size_t kExact = size_t{1} << 53;
  for (int64_t i = 0; i < count; ++i) {
    const std::string_view row(from + static_cast<size_t>(i) * bytes, bytes);
    to[i] = static_cast<double>(std::hash<std::string_view>()(row) % kExact);
  }
  return out;
}

/// The distinct images or texts of an evaluation.
struct RetrievalSide {
  std::vector<int64_t> of_row;  ///< the item of each row
  at::Tensor embeddings;        ///< of each item, [items, width]
};

RetrievalSide retrieval_side(const at::Tensor& keys, const at::Tensor& embeddings) {
  const at::Tensor own = keys.contiguous();
  const double* key = own.const_data_ptr<double>();
  RetrievalSide side;
  std::unordered_map<double, int64_t> items;
  at::Tensor first = at::empty({own.size(0)}, at::TensorOptions().dtype(at::kLong));
  int64_t* row = first.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < own.size(0); ++i) {
    const auto [found, is_new] = items.emplace(key[i], static_cast<int64_t>(items.size()));
    if (is_new) row[found->second] = i;
    side.of_row.push_back(found->second);
  }
  side.embeddings =
      embeddings.index_select(0, first.narrow(0, 0, static_cast<int64_t>(items.size())));
  return side;
}

/// The rank, from 1, of the best partner of each item among the items of `other`. Others of the
/// same similarity come first: a model of equal embeddings finds nothing.
std::vector<int64_t> partner_ranks(const RetrievalSide& side, const RetrievalSide& other) {
  const int64_t items = side.embeddings.size(0), candidates = other.embeddings.size(0);
  std::vector<std::vector<int64_t>> partners(static_cast<size_t>(items));
  for (size_t row = 0; row < side.of_row.size(); ++row) {
    partners[static_cast<size_t>(side.of_row[row])].push_back(other.of_row[row]);
  }
  std::vector<int64_t> ranks;
  const int64_t at_once = std::max<int64_t>(1, kSimilarities / candidates);
  for (int64_t begin = 0; begin < items; begin += at_once) {
    const int64_t count = std::min(at_once, items - begin);
    const at::Tensor similar =
        at::matmul(side.embeddings.narrow(0, begin, count), other.embeddings.t()).contiguous();
    double* score = similar.mutable_data_ptr<double>();
    for (int64_t i = 0; i < count; ++i, score += candidates) {
      double best = -std::numeric_limits<double>::infinity();
      for (const int64_t partner : partners[static_cast<size_t>(begin + i)]) {
        best = std::max(best, score[partner]);
        score[partner] = -std::numeric_limits<double>::infinity();
      }
      ranks.push_back(1 + std::count_if(score, score + candidates, [best](double other_score) {
                        return !(other_score < best) || std::isnan(best);
                      }));
    }
  }
  return ranks;
}

class RetrievalRecall final : public SampleMetric {
 public:
  static constexpr auto kName = "retrieval_recall";
  static constexpr const char* kHintFor[] = {"recall_at_k", "recall@1", "recall@5", "r@1"};
  static constexpr auto kSummary =
      "Share of images whose text, and of texts whose image, is among the k most similar ones of "
      "the whole evaluation. Equal images, and equal texts, count as one.";

  static Schema<RetrievalRecallOptions> schema() {
    return Schema<RetrievalRecallOptions>()
        .field("k", &RetrievalRecallOptions::k,
               "Most similar items among which a partner is; each k is two metrics, "
               "'image_to_text_recall_K' and 'text_to_image_recall_K'.",
               each(at_least<int64_t>(1)))
        .check([](const RetrievalRecallOptions& options, const Node& node, Reading& reading) {
          if (options.k.empty()) reading.problems.error(node.where, "'k' must not be empty");
        });
  }

  RetrievalRecall(const RetrievalRecallOptions& options, const MetricContext& context)
      : k_(options.k) {
    if (context.data.input.empty() || has_image_texts(context.data)) return;
    throw Error(ExitCode::kRecipe,
                "the metric 'retrieval_recall' needs pairs of an image and a text",
                "leave it out, or use data of type 'image_text'");
  }

  std::vector<std::pair<std::string, double>> values() const override {
    const at::Tensor pairs = rows();
    std::vector<int64_t> of_images, of_texts;
    if (pairs.defined()) {
      const int64_t width = (pairs.size(1) - kKeys) / 2;
      const RetrievalSide images =
          retrieval_side(pairs.select(1, kImageKey), pairs.narrow(1, kKeys, width));
      const RetrievalSide texts =
          retrieval_side(pairs.select(1, kTextKey), pairs.narrow(1, kKeys + width, width));
      of_images = partner_ranks(images, texts);
      of_texts = partner_ranks(texts, images);
    }
    std::vector<std::pair<std::string, double>> all;
    for (const int64_t k : k_) {
      all.emplace_back("image_to_text_recall_" + std::to_string(k), share_within(of_images, k));
      all.emplace_back("text_to_image_recall_" + std::to_string(k), share_within(of_texts, k));
    }
    return all;
  }

 private:
  at::Tensor rows_of(const EvalStep& step) const override {
    const at::Tensor embeddings = step.output.flatten(1).to(at::kDouble).cpu();
    return at::cat({row_digests(step.batch.inputs).unsqueeze(1),
                    row_digests(step.batch.targets).unsqueeze(1), embeddings},
                   1);
  }
  double value_of(const at::Tensor& /*rows*/) const override { return 0; }
  const char* name() const override { return kName; }

  /// NaN without any.
  static double share_within(const std::vector<int64_t>& ranks, int64_t k) {
    const auto hits =
        std::count_if(ranks.begin(), ranks.end(), [k](int64_t rank) { return rank <= k; });
    return static_cast<double>(hits) / static_cast<double>(ranks.size());
  }

  std::vector<int64_t> k_;
};

const Register<RetrievalRecall> retrieval_recall;

}  // namespace
}  // namespace accel
