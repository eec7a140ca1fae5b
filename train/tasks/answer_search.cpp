#include "train/tasks/answer_search.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace accel {
namespace {

/// Two columns for each of `n` places: its position, -1 for none, and its logit.
std::vector<at::Tensor> likeliest_places(const at::Tensor& logits, int64_t n) {
  const int64_t found = std::min(n, logits.size(1));
  const auto [values, places] = logits.topk(found, 1);
  const at::Tensor there = values.gt(-std::numeric_limits<float>::infinity());
  at::Tensor numbers = places.to(at::kFloat).masked_fill(there.logical_not(), -1);
  at::Tensor scores = values.masked_fill(there.logical_not(), 0);
  if (found < n) {
    const at::Tensor rest = at::full({logits.size(0), n - found}, -1.0, logits.options());
    numbers = at::cat({numbers, rest}, 1);
    scores = at::cat({scores, rest}, 1);
  }
  return {numbers, scores};
}

/// A span of a context.
struct Span {
  std::optional<ContextBytes> bytes;  ///< none: no answer
  float score = 0;
};

/// The spans of all windows of one question.
struct Spans {
  std::vector<Span> list;
  std::optional<float> no_answer;  ///< the lowest score of the windows
};

/// Token positions relative to the window's context; none outside of it.
std::optional<size_t> in_context(double place, const QuestionWindow& window) {
  const auto token = static_cast<int64_t>(place) - window.first;
  if (token < 0 || token >= static_cast<int64_t>(window.tokens.size())) return std::nullopt;
  return static_cast<size_t>(token);
}

/// Adds the spans of one window; `row` has 1 + 4 n columns.
void add_window(std::span<const double> row, const QuestionWindow& window,
                const AnswerOptions& options, Spans& spans) {
  const auto none = static_cast<float>(row[0]);
  spans.no_answer = spans.no_answer ? std::min(*spans.no_answer, none) : none;
  const size_t n = (row.size() - 1) / 4;
  const auto firsts = row.subspan(1, n), first_scores = row.subspan(1 + n, n);
  const auto lasts = row.subspan(1 + 2 * n, n), last_scores = row.subspan(1 + 3 * n, n);
  for (size_t i = 0; i < n; ++i) {
    const auto first = in_context(firsts[i], window);
    if (!first) continue;
    for (size_t j = 0; j < n; ++j) {
      const auto last = in_context(lasts[j], window);
      if (!last || *last < *first) continue;
      if (static_cast<int64_t>(*last - *first) + 1 > options.max_answer_length) continue;
      spans.list.push_back(
          {ContextBytes{window.tokens[*first].begin, window.tokens[*last].end},
           static_cast<float>(first_scores[i]) + static_cast<float>(last_scores[j])});
    }
  }
}

/// The n best by falling score, with no answer among them if that may be predicted.
std::vector<Span> n_best_of(Spans spans, const AnswerOptions& options) {
  const Span none{std::nullopt, spans.no_answer.value_or(0)};
  if (options.version_2_with_negative) spans.list.push_back(none);
  std::stable_sort(spans.list.begin(), spans.list.end(),
                   [](const Span& a, const Span& b) { return a.score > b.score; });
  if (static_cast<int64_t>(spans.list.size()) > options.n_best_size) {
    spans.list.resize(static_cast<size_t>(options.n_best_size));
    const bool has_none = std::any_of(spans.list.begin(), spans.list.end(),
                                      [](const Span& span) { return !span.bytes; });
    if (options.version_2_with_negative && !has_none) spans.list.push_back(none);
  }
  return spans.list;
}

std::string text_of(const Span& span, std::string_view context) {
  if (!span.bytes) return {};
  const auto& [begin, end] = *span.bytes;
  return std::string(context.substr(static_cast<size_t>(begin),
                                    static_cast<size_t>(std::max(end - begin, int64_t{0}))));
}

FoundAnswer answer_of(const Spans& spans, std::string_view context, const AnswerOptions& options) {
  FoundAnswer out;
  const std::vector<Span> best = n_best_of(spans, options);
  double sum = 0;
  for (const Span& span : best) sum += std::exp(double(span.score) - double(best.front().score));
  for (const Span& span : best) {
    out.n_best.emplace_back(text_of(span, context),
                            std::exp(double(span.score) - double(best.front().score)) / sum);
  }
  const auto found = std::find_if(out.n_best.begin(), out.n_best.end(),
                                  [](const auto& item) { return !item.first.empty(); });
  if (found == out.n_best.end()) return out;  // no span is possible
  const Span& span = best[static_cast<size_t>(found - out.n_best.begin())];
  out.null_score_diff = double(spans.no_answer.value_or(0)) - double(span.score);
  const bool is_none =
      options.version_2_with_negative && out.null_score_diff > options.null_score_diff_threshold;
  if (!is_none) out.text = found->first;
  return out;
}

}  // namespace

at::Tensor answer_places(const at::Tensor& scores, const at::Tensor& lengths, int64_t n_best_size) {
  at::Tensor all = scores.to(at::kFloat);
  const at::Tensor none = all.select(1, 0).sum(1, /*keepdim=*/true);
  if (lengths.defined()) {
    const at::Tensor places = at::arange(all.size(1), lengths.options());
    const at::Tensor padding = places.ge(lengths.view({-1, 1})).unsqueeze(2);
    all = all.masked_fill(padding, -std::numeric_limits<double>::infinity());
  }
  std::vector<at::Tensor> columns = {none};
  for (const int64_t side : {0, 1}) {
    for (at::Tensor& part : likeliest_places(all.select(2, side), n_best_size)) {
      columns.push_back(std::move(part));
    }
  }
  return at::cat(columns, 1);
}

std::map<int64_t, FoundAnswer> find_answers(const Questions& questions, const at::Tensor& rows,
                                            const AnswerOptions& options) {
  const at::Tensor table = rows.to(at::kDouble).cpu().contiguous();
  const auto width = static_cast<size_t>(table.size(1));
  const double* next = table.const_data_ptr<double>();
  std::map<int64_t, Spans> spans;
  for (int64_t i = 0; i < table.size(0); ++i, next += width) {
    const QuestionWindow window = questions.window(static_cast<int64_t>(next[0]));
    add_window({next + 1, width - 1}, window, options, spans[window.question]);
  }
  std::map<int64_t, FoundAnswer> out;
  for (const auto& [number, found] : spans) {
    out.emplace(number, answer_of(found, questions.question(number).context, options));
  }
  return out;
}

}  // namespace accel
