// Exact match and F1 of answers, as the metrics squad and squad_v2 of the package evaluate have
// them.
#include "train/metrics/squad.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/recipe/registry.h"
#include "text/unicode.h"

namespace accel {

std::vector<std::pair<std::string, double>> AnswerMetric::values() const {
  const at::Tensor all = rows();
  return scores_of(all.defined() ? answers_(all) : std::vector<AnsweredQuestion>());
}

at::Tensor AnswerMetric::rows_of(const EvalStep& step) const {
  const at::Tensor ids = at::tensor(step.batch.ids, at::kLong).view({-1, 1});
  return at::cat({ids.to(at::kDouble), step.output.to(at::kDouble).cpu()}, 1);
}

double AnswerMetric::value_of(const at::Tensor& rows) const {
  return scores_of(answers_(rows)).front().second;
}

namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kAsciiPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

bool is_article(const std::string& run) {
  return run == "a" || run == "an" || run == "the";
}

/// Lower case, without ASCII punctuation and articles, split at white space.
Words normalized_words(const std::string& answer) {
  std::string plain;
  for (const char c : lower_case(lossy_utf8(answer))) {
    if (kAsciiPunctuation.find(c) == std::string_view::npos) plain += c;
  }
  // Articles are runs of word characters; a space takes the place of each.
  std::string rest, run;
  const auto end_run = [&] {
    rest += is_article(run) ? " " : run;
    run.clear();
  };
  for (size_t at = 0; at < plain.size();) {
    const Character next = character_at(plain, at);
    if (is_word_character(next.code)) {
      run.append(plain, at, next.bytes);
    } else {
      end_run();
      is_white(next.code) ? rest += ' ' : rest.append(plain, at, next.bytes);
    }
    at += next.bytes;
  }
  end_run();
  Words words;
  for (size_t begin = 0; begin < rest.size();) {
    const size_t end = std::min(rest.find(' ', begin), rest.size());
    if (end > begin) words.push_back(rest.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// Exact match and F1 of one question.
struct Score {
  double exact = 0;
  double f1 = 0;
};

double f1_of(const Words& prediction, const Words& reference) {
  std::map<std::string, int64_t> left;
  for (const std::string& word : reference) ++left[word];
  int64_t common = 0;
  for (const std::string& word : prediction) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++common;
  }
  if (common == 0) return 0;
  const double precision = double(common) / double(prediction.size());
  const double recall = double(common) / double(reference.size());
  return 2 * precision * recall / (precision + recall);
}

/// The best over the references, each of which has a word if `skips_empty`.
Score score_of(const AnsweredQuestion& question, bool skips_empty) {
  const Words prediction = normalized_words(question.prediction);
  std::vector<Words> references;
  for (const std::string& text : question.references) {
    references.push_back(normalized_words(text));
    if (skips_empty && references.back().empty()) references.pop_back();
  }
  if (references.empty()) references.emplace_back();
  Score best;
  for (const Words& reference : references) {
    const bool equal = prediction == reference;
    const bool one_empty = skips_empty && (prediction.empty() || reference.empty());
    best.exact = std::max(best.exact, equal ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, one_empty ? (equal ? 1.0 : 0.0) : f1_of(prediction, reference));
  }
  return best;
}

/// The mean of scores.
class MeanScore {
 public:
  void add(const Score& score) {
    sum_.exact += score.exact;
    sum_.f1 += score.f1;
    ++count_;
  }
  double exact() const { return percent(sum_.exact); }
  double f1() const { return percent(sum_.f1); }

 private:
  double percent(double sum) const {
    return count_ > 0 ? 100 * sum / double(count_) : std::numeric_limits<double>::quiet_NaN();
  }

  Score sum_;
  int64_t count_ = 0;
};

struct SquadOptions {};

class Squad final : public AnswerMetric {
 public:
  static constexpr auto kName = "squad";
  static constexpr auto kSummary =
      "Exact match and F1 of the answers' words in percent, as SQuAD's script computes them.";

  static Schema<SquadOptions> schema() { return {}; }

  explicit Squad(const SquadOptions&) {}

  bool scores_no_answer() const override { return false; }

 private:
  std::vector<std::pair<std::string, double>> scores_of(
      const std::vector<AnsweredQuestion>& answered) const override {
    MeanScore all;
    for (const AnsweredQuestion& question : answered) all.add(score_of(question, false));
    return {{"exact_match", all.exact()}, {"f1", all.f1()}};
  }
  const char* name() const override { return kName; }
};

class SquadV2 final : public AnswerMetric {
 public:
  static constexpr auto kName = "squad_v2";
  static constexpr auto kSummary =
      "Exact match and F1 of questions with and without an answer, as SQuAD 2's script has them.";

  static Schema<SquadOptions> schema() { return {}; }

  explicit SquadV2(const SquadOptions&) {}

  bool scores_no_answer() const override { return true; }

 private:
  std::vector<std::pair<std::string, double>> scores_of(
      const std::vector<AnsweredQuestion>& answered) const override {
    MeanScore all, with, without;
    for (const AnsweredQuestion& question : answered) {
      const Score score = score_of(question, true);
      all.add(score);
      (question.references.empty() ? without : with).add(score);
    }
    return {{"exact", all.exact()},           {"f1", all.f1()},
            {"HasAns_exact", with.exact()},   {"HasAns_f1", with.f1()},
            {"NoAns_exact", without.exact()}, {"NoAns_f1", without.f1()}};
  }
  const char* name() const override { return kName; }
};

const Register<Squad> squad;
const Register<SquadV2> squad_v2;

}  // namespace
}  // namespace accel
