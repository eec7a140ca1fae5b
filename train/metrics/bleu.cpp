// BLEU (Papineni et al. 2002) of a corpus with one reference per text: sacrebleu's default, with
// the tokenizer 13a and exponential smoothing (Post 2018, arXiv:1804.08771).
#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "core/recipe/registry.h"
#include "text/unicode.h"
#include "train/metrics/text_metric.h"

namespace accel {
namespace {

struct BleuOptions {};

constexpr size_t kOrders = 4;

bool is_python_white(uint32_t code) {
  return is_white(code) || (code >= 0x1c && code <= 0x1f);
}

std::string without_trailing_white(const std::string& text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    at += c.bytes;
    if (!is_python_white(c.code)) end = at;
  }
  return text.substr(0, end);
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_stop(char c) {
  return c == '.' || c == ',';
}

/// ASCII punctuation that is always a word of its own: all but ' , - . and digits.
bool is_separated(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

/// Each pair of neighbours for which `splits`, from left to right and without overlap, as `write`
/// writes it.
template <class Splits, class Write>
std::string rewritten_pairs(const std::string& text, const Splits& splits, const Write& write) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && splits(text[i], text[i + 1])) {
      write(out, text[i], text[i + 1]);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

void write_word_after(std::string& out, char first, char second) {
  out.append(1, first).append(1, ' ').append(1, second).append(1, ' ');
}

void write_word_before(std::string& out, char first, char second) {
  out.append(1, ' ').append(1, first).append(1, ' ').append(1, second);
}

/// The words of mteval-v13a, which leaves stops between digits in their word.
std::vector<std::string> bleu_words(const std::string& text) {
  std::string line = without_trailing_white(lossy_utf8(text));
  line = replaced(replaced(std::move(line), "<skipped>", ""), "-\n", "");
  line = replaced(std::move(line), "\n", " ");
  for (const auto& [entity, character] :
       {std::pair("&quot;", "\""), {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}}) {
    line = replaced(std::move(line), entity, character);
  }
  std::string apart = " ";
  for (const char c : line) {
    is_separated(c) ? apart.append(1, ' ').append(1, c).append(1, ' ') : apart.append(1, c);
  }
  apart += ' ';
  apart = rewritten_pairs(
      apart, [](char a, char b) { return !is_digit(a) && is_stop(b); }, write_word_after);
  apart = rewritten_pairs(
      apart, [](char a, char b) { return is_stop(a) && !is_digit(b); }, write_word_before);
  apart = rewritten_pairs(
      apart, [](char a, char b) { return is_digit(a) && b == '-'; }, write_word_after);
  std::vector<std::string> words(1);
  for (size_t at = 0; at < apart.size();) {
    const Character c = character_at(apart, at);
    if (!is_python_white(c.code)) {
      words.back().append(apart, at, c.bytes);
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
    at += c.bytes;
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

using GramCounts = std::map<std::vector<std::string>, int64_t>;

GramCounts grams_of_order(const std::vector<std::string>& words, size_t order) {
  GramCounts counts;
  for (size_t i = 0; i + order <= words.size(); ++i) {
    const auto first = words.begin() + static_cast<ptrdiff_t>(i);
    ++counts[{first, first + static_cast<ptrdiff_t>(order)}];
  }
  return counts;
}

class Bleu final : public TextMetric {
 public:
  static constexpr auto kName = "bleu";
  static constexpr const char* kHintFor[] = {"sacrebleu"};
  static constexpr auto kSummary = "sacrebleu's BLEU of the generated texts of an evaluation.";

  static Schema<BleuOptions> schema() { return {}; }

  explicit Bleu(const BleuOptions&) {}

  void add(const std::string& prediction, const std::string& reference) override {
    const std::vector<std::string> predicted = bleu_words(prediction);
    const std::vector<std::string> wanted = bleu_words(reference);
    for (size_t order = 1; order <= kOrders; ++order) {
      const GramCounts of_wanted = grams_of_order(wanted, order);
      for (const auto& [gram, count] : grams_of_order(predicted, order)) {
        const auto found = of_wanted.find(gram);
        if (found != of_wanted.end()) {
          correct(order) += static_cast<double>(std::min(count, found->second));
        }
        total(order) += static_cast<double>(count);
      }
    }
    predicted_words() += static_cast<double>(predicted.size());
    wanted_words() += static_cast<double>(wanted.size());
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override { return {{kName, score()}}; }

 private:
  double& correct(size_t order) { return sums_[order - 1]; }
  double& total(size_t order) { return sums_[kOrders + order - 1]; }
  double& predicted_words() { return sums_[2 * kOrders]; }
  double& wanted_words() { return sums_[2 * kOrders + 1]; }

  /// In [0, 100].
  double score() const {
    const double* const correct = sums_.data();
    const double* const total = correct + kOrders;
    const double predicted = sums_[2 * kOrders], wanted = sums_[2 * kOrders + 1];
    // Without texts of four words there is no precision of that order, and no score.
    if (correct[0] == 0 || total[kOrders - 1] == 0) return 0;
    double smoothing = 1, logs = 0;
    for (size_t i = 0; i < kOrders; ++i) {
      if (correct[i] == 0) smoothing *= 2;
      const double share = correct[i] == 0 ? 1 / smoothing : correct[i];
      logs += std::log(100 * share / total[i]);
    }
    const double brevity = predicted < wanted ? std::exp(1 - wanted / predicted) : 1;
    return brevity * std::exp(logs / kOrders);
  }

  /// Common n-grams and those of predictions, by order; words of predictions and of references.
  std::vector<double> sums_ = std::vector<double>(2 * kOrders + 2, 0);
};

const Register<Bleu> bleu;

}  // namespace
}  // namespace accel
