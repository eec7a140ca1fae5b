#include "models/layers/relative_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>

namespace accel {
namespace {

/// Signed distances as buckets: exact up to half of them, beyond it logarithmic.
at::Tensor bucketed(const at::Tensor& distance, int64_t buckets, int64_t longest) {
  const int64_t mid = buckets / 2;
  const double share = static_cast<double>(longest - 1) / static_cast<double>(mid);
  const at::Tensor whole = at::scalar_tensor(share, at::kFloat).to(distance.device()).log();
  const at::Tensor size = distance.abs();
  const at::Tensor far = size.clamp_min(mid - 1)
                             .to(at::kFloat)
                             .div(mid)
                             .log()
                             .div(whole)
                             .mul(mid - 1)
                             .ceil()
                             .add(mid)
                             .mul(distance.sign());
  return at::where(size.le(mid), distance.to(at::kFloat), far).to(at::kLong);
}

double lowest_of(at::ScalarType type) {
  if (type == at::kHalf) return std::numeric_limits<at::Half>::lowest();
  if (type == at::kBFloat16) return std::numeric_limits<at::BFloat16>::lowest();
  return std::numeric_limits<float>::lowest();
}

/// [..., length, width] to [..., heads, length, width / heads].
at::Tensor split_heads(const at::Tensor& x, int64_t heads) {
  return x.unflatten(-1, {heads, -1}).transpose(-3, -2);
}

}  // namespace

Schema<RelativeOptions> RelativeOptions::schema() {
  using Options = RelativeOptions;
  return Schema<Options>()
      .field("content_to_position", &Options::content_to_position,
             "Whether a token's content attends to relative positions.")
      .on_resume(Change::kImpossible)
      .hint_for({"c2p"})
      .field("position_to_content", &Options::position_to_content,
             "Whether relative positions attend to a token's content.")
      .on_resume(Change::kImpossible)
      .hint_for({"p2c"})
      .field("buckets", &Options::buckets,
             "Relative positions in each direction: half of them exact, the others for distances "
             "that grow logarithmically; 0: one for each distance.",
             at_least<int64_t>(0))
      .on_resume(Change::kImpossible)
      .hint_for({"position_buckets"})
      .field("max_distance", &Options::max_distance,
             "The largest distance that is told apart; auto: `max_seq_len`, else 512.",
             if_given<Auto>(at_least<int64_t>(2)))
      .on_resume(Change::kImpossible)
      .hint_for({"max_relative_positions"})
      .field("share_projections", &Options::share_projections,
             "Whether relative positions have the projections of contents; false: their own.")
      .on_resume(Change::kImpossible)
      .hint_for({"share_att_key"})
      .field("norm", &Options::norm, "Whether the table of relative positions is normalised.")
      .on_resume(Change::kImpossible)
      .hint_for({"norm_rel_ebd"})
      .check([](const Options& options, const Node& node, Reading& reading) {
        if (options.buckets == 1 || options.buckets == 2 || options.buckets == 3) {
          reading.problems.error(node.where, "'buckets' must be 0 or at least 4");
        }
        if (options.share_projections || options.content_to_position ||
            options.position_to_content) {
          return;
        }
        reading.problems.error(node.where,
                               "'share_projections' has no effect without a term of positions",
                               "leave it out");
      });
}

RelativePass relative_pass(const RelativeOptions& options, int64_t context, int64_t length,
                           const at::Tensor& table) {
  const at::Tensor places =
      at::arange(length, at::TensorOptions().dtype(at::kLong).device(table.device()));
  at::Tensor distance = places.unsqueeze(1).sub(places.unsqueeze(0));
  if (options.buckets > 0) distance = bucketed(distance, options.buckets, options.longest(context));
  const int64_t span = options.span(context);
  return {table, distance.add(span).clamp(0, 2 * span - 1),
          distance.neg().add(span).clamp(0, 2 * span - 1)};
}

at::Tensor disentangled_attention(const SelfAttention& by, const RelativeTerms& terms,
                                  const at::Tensor& x, const at::Tensor& mask,
                                  const RelativePass& pass) {
  const at::Tensor query = split_heads(by.query.forward(x), by.heads);
  const at::Tensor key = split_heads(by.key.forward(x), by.heads);
  const at::Tensor value = split_heads(by.value.forward(x), by.heads);
  const int64_t summands = 1 + (terms.key ? 1 : 0) + (terms.query ? 1 : 0);
  const double scale = std::sqrt(static_cast<float>(query.size(-1) * summands));
  at::Tensor scores = query.matmul(key.transpose(-1, -2).div(scale));
  const at::Tensor table = at::dropout(pass.table, terms.dropout, terms.dropout > 0);
  at::Tensor relative;
  const auto rows_of = [&](const at::Tensor& rows) {
    return rows.expand({scores.size(0), scores.size(1), -1, -1});
  };
  if (terms.key) {
    const at::Tensor places = split_heads(terms.key->forward(table), by.heads);
    relative = query.matmul(places.transpose(-1, -2)).gather(-1, rows_of(pass.key_rows)).div(scale);
  }
  if (terms.query) {
    const at::Tensor places = split_heads(terms.query->forward(table), by.heads);
    const at::Tensor asked = key.matmul(places.transpose(-1, -2))
                                 .gather(-1, rows_of(pass.query_rows))
                                 .transpose(-1, -2)
                                 .div(scale);
    relative = relative.defined() ? relative.add(asked) : asked;
  }
  if (relative.defined()) scores = scores.add(relative);
  if (mask.defined()) {
    scores = scores.masked_fill(mask.logical_not(), lowest_of(scores.scalar_type()));
  }
  const at::Tensor weights = at::dropout(scores.softmax(-1), by.dropout, by.dropout > 0);
  return weights.matmul(value).transpose(1, 2).flatten(2);
}

}  // namespace accel
