// Cross-entropy over a vocabulary that ranks divide, against one process.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <limits>

#include "core/api/targets.h"
#include "parallel/tensor_ranks.h"
#include "tests/unit/parallel/ranks.h"
#include "train/tasks/chunked_cross_entropy.h"

namespace accel::vocabulary_parallel_loss_test {
namespace {

constexpr int64_t kTokens = 12, kVocab = 11, kWidth = 5;

at::Tensor numbers(std::vector<int64_t> shape, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(seed, seed + count, at::kFloat).mul(0.7).sin().view(shape);
}

/// Targets of every row, two of them masked.
VocabularyHead whole_head() {
  const at::Tensor targets = at::arange(kTokens).remainder(kVocab);
  targets[3].fill_(kIgnoredTarget);
  targets[10].fill_(kIgnoredTarget);
  return {.hidden = numbers({kTokens, kWidth}, 1).mul(3).requires_grad_(true),
          .weight = numbers({kVocab, kWidth}, 2).mul(3).requires_grad_(true),
          .targets = targets,
          .bias = numbers({kVocab}, 3).requires_grad_(true)};
}

void expect_close(const at::Tensor& found, const at::Tensor& wanted) {
  ASSERT_EQ(found.sizes(), wanted.sizes());
  EXPECT_LT(found.sub(wanted).abs().max().item().toDouble(), 1e-6);
}

/// Runs `body` on each rank with its rows of the head: of 4 ranks 3, 3, 3 and 2.
void with_rows(int64_t count,
               const std::function<void(const TensorRanks&, VocabularyHead&)>& body) {
  on_ranks(count, [&](Communicator& group) {
    const auto ranks =
        make_tensor_ranks({std::shared_ptr<Communicator>(), &group}, /*sequence=*/false);
    VocabularyHead head = whole_head();
    head.vocabulary = {ranks.get(), kVocab};
    const int64_t first = head.vocabulary.first();
    const int64_t rows = std::min((kVocab + count - 1) / count, kVocab - first);
    head.weight = head.weight.detach().narrow(0, first, rows).clone().requires_grad_(true);
    head.bias = head.bias.detach().narrow(0, first, rows).clone().requires_grad_(true);
    body(*ranks, head);
  });
}

TEST(VocabularyParallelLossTest, HasTheLossAndGradientsOfOneProcess) {
  const VocabularyHead whole = whole_head();
  const at::Tensor wanted = chunked_cross_entropy(whole, kTokens);
  wanted.backward();
  for (const int64_t chunk : {kTokens, int64_t{5}}) {
    with_rows(4, [&](const TensorRanks& ranks, VocabularyHead& head) {
      at::Tensor hidden = head.hidden;
      head.hidden = ranks.enter(hidden);
      const at::Tensor loss = chunked_cross_entropy(head, chunk);
      expect_close(loss, wanted.detach());
      loss.backward();
      expect_close(hidden.grad(), whole.hidden.grad());
      expect_close(head.weight.grad(),
                   whole.weight.grad().narrow(0, head.vocabulary.first(), head.weight.size(0)));
      expect_close(head.bias.grad(),
                   whole.bias.grad().narrow(0, head.vocabulary.first(), head.bias.size(0)));
    });
  }
}

TEST(VocabularyParallelLossTest, PredictsTheTokensOfOneProcess) {
  VocabularyHead whole = whole_head();
  whole.bias.reset();
  // Rows 2 and 7 are equal, and the likeliest of some tokens: the first one counts.
  const at::Tensor weight = whole.weight.detach().clone();
  weight[7].copy_(weight[2]);
  whole.weight = weight;
  const ScoredTokens wanted = score_by_chunks(whole, kTokens);
  EXPECT_TRUE(wanted.predicted.eq(2).any().item<bool>());
  with_rows(4, [&](const TensorRanks&, VocabularyHead& head) {
    head.weight = weight.narrow(0, head.vocabulary.first(), head.weight.size(0));
    head.bias.reset();
    const ScoredTokens found = score_by_chunks(head, 7);
    EXPECT_TRUE(at::equal(found.predicted, wanted.predicted));
    expect_close(found.loss, wanted.loss);
  });
}

TEST(VocabularyParallelLossTest, RowsWithoutProbabilityAreNeverChosen) {
  with_rows(2, [&](const TensorRanks& ranks, VocabularyHead& head) {
    // As the padding of a vocabulary: infinitely unlikely on the second rank alone.
    head.hidden = at::full({kTokens, kWidth}, 1.0F);
    if (ranks.rank() == 1) {
      head.weight = at::full(head.weight.sizes(), -std::numeric_limits<float>::infinity());
    }
    const ScoredTokens found = score_by_chunks(head, kTokens);
    EXPECT_TRUE(found.predicted.lt(6).all().item<bool>());
  });
}

}  // namespace
}  // namespace accel::vocabulary_parallel_loss_test
