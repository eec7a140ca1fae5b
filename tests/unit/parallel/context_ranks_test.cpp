// Attention of divided sequences against attention of whole ones.
#include "parallel/context_ranks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <optional>

#include "kernels/attention_scores.h"
#include "parallel/chunk_attention.h"
#include "tests/unit/parallel/ranks.h"

namespace accel::context_ranks_test {
namespace {

struct Sizes {
  int64_t heads, kv_heads, length;
};

at::Tensor numbers(std::vector<int64_t> shape, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(seed, seed + count, at::kDouble).mul(0.7).sin().to(at::kFloat).view(shape);
}

/// Queries, keys, values and the gradient of the output; [batch, heads, length, width].
struct Call {
  at::Tensor query, key, value, slope;

  explicit Call(const Sizes& sizes)
      : query(numbers({2, sizes.heads, sizes.length, 8}, 1)),
        key(numbers({2, sizes.kv_heads, sizes.length, 8}, 2)),
        value(numbers({2, sizes.kv_heads, sizes.length, 8}, 3)),
        slope(numbers({2, sizes.heads, sizes.length, 8}, 4)) {}

  Call at(const at::Tensor& positions) const {
    Call own = *this;
    for (at::Tensor* x : {&own.query, &own.key, &own.value, &own.slope}) {
      const int64_t more = std::max<int64_t>(positions.max().item<int64_t>() + 1 - x->size(2), 0);
      *x = at::cat({*x, at::zeros({2, x->size(1), more, 8})}, 2).index_select(2, positions);
    }
    return own;
  }

  /// The output, then the gradients of queries, keys and values.
  std::vector<at::Tensor> results(const std::function<at::Tensor(const Call&)>& attention) {
    for (at::Tensor* x : {&query, &key, &value}) *x = x->clone().requires_grad_();
    const at::Tensor out = attention(*this);
    out.backward(slope);
    return {out.detach(), query.grad(), key.grad(), value.grad()};
  }
};

enum class Seen { kCausal, kPacked, kWindow, kPackedWindow, kAll, kLengths };

std::vector<at::Tensor> whole_results(const Sizes& sizes, const at::Tensor& mask, bool is_causal,
                                      double softcap) {
  Call whole(sizes);
  return whole.results([&](const Call& call) {
    return scored_attention({call.query, call.key, call.value, mask, is_causal},
                            {.softcap = softcap});
  });
}

/// First positions of texts in two rows of `length`: [0, 3), [3, 4), [4, ...) and [0, 6), [6, ...).
at::Tensor starts_of_texts(int64_t length) {
  const at::Tensor places = at::arange(length);
  const at::Tensor first = places.ge(3).to(at::kLong).mul(3).add(places.ge(4).to(at::kLong));
  return at::stack({first, places.ge(6).to(at::kLong).mul(6)});
}

bool has_texts(Seen seen) {
  return seen == Seen::kPacked || seen == Seen::kPackedWindow;
}

bool has_window(Seen seen) {
  return seen == Seen::kWindow || seen == Seen::kPackedWindow;
}

/// The first key that each position sees; undefined: that of the sequence.
at::Tensor first_keys(Seen seen, int64_t length) {
  constexpr int64_t kWindow = 3;
  const at::Tensor first = at::arange(length).sub(kWindow - 1).clamp_min(0).unsqueeze(0);
  if (seen == Seen::kWindow) return first;
  if (!has_texts(seen)) return {};
  const at::Tensor starts = starts_of_texts(length);
  return has_window(seen) ? starts.maximum(first) : starts;
}

/// Two rows with these lengths: positions below them in `length`, bool [2, length].
at::Tensor below_lengths(int64_t first, int64_t second, int64_t length) {
  return at::arange(length).unsqueeze(0).lt(at::tensor({first, second}).unsqueeze(1));
}

/// The mask of attention in one process.
at::Tensor whole_mask(Seen seen, int64_t length) {
  const at::Tensor starts = starts_of_texts(length);
  const at::Tensor same = starts.unsqueeze(2).eq(starts.unsqueeze(1)).tril().unsqueeze(1);
  const at::Tensor near = at::ones({length, length}, at::kBool).tril().triu(-2);
  if (seen == Seen::kPacked) return same;
  if (seen == Seen::kWindow) return near;
  if (seen == Seen::kPackedWindow) return same.logical_and(near);
  if (seen != Seen::kLengths) return {};
  return below_lengths(3, length, length).unsqueeze(1).unsqueeze(1);
}

void check(ContextMethod method, int64_t ranks, const Sizes& sizes, Seen seen, double softcap = 0) {
  const at::Tensor starts = first_keys(seen, sizes.length);
  const bool is_causal = starts.defined() || seen == Seen::kCausal;
  const std::vector<at::Tensor> wanted =
      whole_results(sizes, whole_mask(seen, sizes.length), seen == Seen::kCausal, softcap);
  on_ranks(ranks, [&](Communicator& group) {
    const std::shared_ptr<Communicator> shared(std::shared_ptr<Communicator>(), &group);
    const auto context = make_context_ranks(shared, {method});
    context->check_heads(sizes.heads, sizes.kv_heads);
    const at::Tensor positions = context->own_positions(sizes.length);
    const int64_t more = context->padded_length(sizes.length) - sizes.length;
    at::Tensor padded;
    if (starts.defined()) {
      padded = at::cat({starts, at::full({starts.size(0), more}, -1, at::kLong)}, 1);
    }
    at::Tensor visible;  // padding is not
    if (!is_causal && (more > 0 || seen == Seen::kLengths)) {
      visible = below_lengths(seen == Seen::kLengths ? 3 : sizes.length, sizes.length,
                              sizes.length + more);
    }
    const std::vector<at::Tensor> found = Call(sizes).at(positions).results([&](const Call& call) {
      return context->attend({.query = call.query,
                              .key = call.key,
                              .value = call.value,
                              .starts = padded,
                              .softcap = softcap,
                              .is_causal = is_causal,
                              .visible = visible});
    });
    const at::Tensor real = positions.lt(sizes.length).nonzero().squeeze(1);
    if (real.numel() == 0) return;  // all of the rank's positions are padding
    for (size_t i = 0; i < wanted.size(); ++i) {
      const at::Tensor own = wanted[i].index_select(2, positions.index_select(0, real));
      const at::Tensor apart = found[i].index_select(2, real).sub(own).abs().max();
      const double largest = std::max(1.0, wanted[i].abs().max().item<double>());
      EXPECT_LT(apart.item<double>() / largest, 1e-6)
          << "result " << i << " of method " << static_cast<int>(method) << " on " << ranks;
    }
  });
}

TEST(ContextRanksTest, EveryMethodHasTheOutputAndGradientsOfWholeAttention) {
  for (const ContextMethod method :
       {ContextMethod::kRing, ContextMethod::kAllGather, ContextMethod::kUlysses}) {
    for (const int64_t ranks : {2, 4}) {
      for (const Seen seen : {Seen::kCausal, Seen::kPacked, Seen::kWindow, Seen::kPackedWindow,
                              Seen::kAll, Seen::kLengths}) {
        check(method, ranks, {.heads = 4, .kv_heads = 4, .length = 16}, seen);
        check(method, ranks, {.heads = 4, .kv_heads = 2, .length = 13}, seen);
        check(method, ranks, {.heads = 8, .kv_heads = 1, .length = 9}, seen);
      }
    }
  }
}

TEST(ContextRanksTest, ScoresAreCappedWhereARankHasThemAll) {
  for (const ContextMethod method : {ContextMethod::kAllGather, ContextMethod::kUlysses}) {
    for (const Seen seen : {Seen::kCausal, Seen::kPackedWindow, Seen::kAll}) {
      check(method, 2, {.heads = 4, .kv_heads = 2, .length = 13}, seen, 0.3);
    }
  }
  on_ranks(2, [](Communicator& group) {
    const std::shared_ptr<Communicator> shared(std::shared_ptr<Communicator>(), &group);
    EXPECT_FALSE(make_context_ranks(shared, {ContextMethod::kRing})->has_whole_scores());
  });
}

/// Each rank's loss of the first position is a part; the first rank gets the sum of the gradients.
TEST(ContextRanksTest, AllRanksHaveTheFirstPositionAndOneItsGradient) {
  on_ranks(3, [](Communicator& group) {
    const std::shared_ptr<Communicator> shared(std::shared_ptr<Communicator>(), &group);
    const auto context = make_context_ranks(shared, {});
    const at::Tensor own =
        numbers({2, 4, 5}, 1).add(static_cast<double>(group.rank())).requires_grad_();
    const at::Tensor first = context->first_position(own);
    EXPECT_TRUE(at::equal(first, numbers({2, 4, 5}, 1).select(1, 0)));
    first.mul(static_cast<double>(group.rank() + 1)).sum().backward();
    const at::Tensor wanted = at::zeros({2, 4, 5});
    if (group.rank() == 0) wanted.select(1, 0).fill_(6);
    EXPECT_TRUE(at::equal(own.grad(), wanted));
  });
}

TEST(ContextRanksTest, RanksHaveEqualWorkOfACausalMask) {
  const auto first = make_context_ranks(std::make_shared<FakeGroup>(2), {ContextMethod::kRing});
  EXPECT_TRUE(at::equal(first->own_positions(7), at::tensor({0, 1, 6, 7})));
  EXPECT_EQ(first->padded_length(7), 8);
  const auto heads = make_context_ranks(std::make_shared<FakeGroup>(2), {ContextMethod::kUlysses});
  EXPECT_TRUE(at::equal(heads->own_positions(7), at::tensor({0, 1, 2, 3})));
}

TEST(ContextRanksTest, PositionsOfARankAreAMultipleOfSequenceParallelRanks) {
  for (const ContextMethod method : {ContextMethod::kRing, ContextMethod::kUlysses}) {
    for (const int64_t tensor : {2, 3, 4}) {
      const auto ranks =
          make_context_ranks(std::make_shared<FakeGroup>(2),
                             {.method = method, .tensor_ranks = tensor, .sequence_parallel = true});
      EXPECT_EQ(ranks->own_positions(9).size(0) % tensor, 0) << tensor;
      EXPECT_GE(ranks->padded_length(9), 9);
    }
  }
}

TEST(ContextRanksTest, UlyssesRefusesHeadsThatRanksDoNotDivide) {
  const auto refusal = [&](int64_t heads, int64_t kv_heads, int64_t tensor = 1) {
    const auto ranks =
        make_context_ranks(std::make_shared<FakeGroup>(4),
                           {.method = ContextMethod::kUlysses, .tensor_ranks = tensor});
    try {
      ranks->check_heads(heads, kv_heads);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(8, 1, 2), "");
  EXPECT_EQ(refusal(12, 2, 2), "'sp' 4 x 'tp' 2 does not divide the model's 'num_heads' 12");
  EXPECT_EQ(refusal(8, 2), "");
  EXPECT_EQ(refusal(6, 2), "'sp' 4 does not divide the model's 'num_heads' 6");
  EXPECT_EQ(refusal(12, 3), "'sp' 4 does not divide the model's 'num_kv_heads' 3");
}

/// Queries in float64, for which there is no kernel, and with a mask that hides all keys of one.
TEST(ChunkAttentionTest, PartsAreMergedWithAndWithoutAKernel) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Call call({.heads = 4, .kv_heads = 2, .length = 12});
    const auto rows = [&](const at::Tensor& x, int64_t first, int64_t count) {
      return x.narrow(2, first, count).to(type);
    };
    const auto keys_of = [&](int64_t first, int64_t count, const Visible& visible) {
      return KeyChunk{rows(call.key, first, count), rows(call.value, first, count), visible};
    };
    const at::Tensor query = rows(call.query, 0, 12), slope = rows(call.slope, 0, 12);
    const Visible all = {}, none = {.mask = at::zeros({1, 1, 12, 5}, at::kBool)};
    const PartialAttention wanted = attend_chunk(query, keys_of(0, 12, all));
    PartialAttention found = attend_chunk(query, keys_of(0, 5, none));
    found.out = found.out.clone();
    EXPECT_TRUE(at::equal(found.out, at::zeros_like(found.out)));
    for (const auto& [first, count] : {std::pair(0, 5), std::pair(5, 7)}) {
      merge(found, attend_chunk(query, keys_of(first, count, all)));
    }
    EXPECT_LT(found.out.sub(wanted.out).abs().max().item<double>(), 1e-6);
    EXPECT_LT(found.logs.sub(wanted.logs).abs().max().item<double>(), 1e-6);
    const Visible masked = {.mask = at::ones({1, 1, 12, 12}, at::kBool)};
    const AttentionSlopes by_kernel =
        attend_chunk_backward(query, keys_of(0, 12, all), wanted, slope);
    const AttentionSlopes by_products =
        attend_chunk_backward(query, keys_of(0, 12, masked), wanted, slope);
    EXPECT_LT(by_kernel.query.sub(by_products.query).abs().max().item<double>(), 1e-6);
    EXPECT_LT(by_kernel.key.sub(by_products.key).abs().max().item<double>(), 1e-6);
    EXPECT_LT(by_kernel.value.sub(by_products.value).abs().max().item<double>(), 1e-6);
  }
}

}  // namespace
}  // namespace accel::context_ranks_test
