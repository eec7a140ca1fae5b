// The datasets that need no files: what they draw, and that training never sees evaluation's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "core/api/dataset.h"
#include "data/datasets/image/glyph_strokes.h"
#include "tests/unit/build_component.h"

namespace accel::synthetic_test {
namespace {

const DatasetContext kTrain{.seed = 7, .train = true};
const DatasetContext kEval{.seed = 7, .train = false};
const DatasetContext kOtherSeed{.seed = 8, .train = true};

const char* const kNames[] = {"synthetic/regression", "synthetic/glyphs", "synthetic/addition",
                              "synthetic/cart_pole"};

std::string bytes_of(const Array& array) {
  return {reinterpret_cast<const char*>(array.data()), array.bytes()};
}

std::string bytes_of(const Sample& sample) {
  return bytes_of(sample.input) + bytes_of(sample.target);
}

TEST(SyntheticTest, ASampleIsAFunctionOfSeedAndIndex) {
  for (const std::string name : kNames) {
    const auto one = build<Dataset>(name, kTrain);
    const auto two = build<Dataset>(name, kTrain);
    EXPECT_EQ(bytes_of(one->sample(5)), bytes_of(two->sample(5))) << name;
    EXPECT_NE(bytes_of(one->sample(5)), bytes_of(one->sample(15))) << name;
    EXPECT_NE(bytes_of(one->sample(5)), bytes_of(build<Dataset>(name, kEval)->sample(5))) << name;
    EXPECT_NE(bytes_of(one->sample(5)), bytes_of(build<Dataset>(name, kOtherSeed)->sample(5)))
        << name;
  }
}

TEST(SyntheticTest, SamplesHaveTheShapeThatIsPromised) {
  for (const std::string name : kNames) {
    const auto dataset = build<Dataset>(name, kTrain);
    const Sample sample = dataset->sample(dataset->size() - 1);
    EXPECT_EQ(sample.input.shape(), dataset->shape().input) << name;
    EXPECT_EQ(sample.input.type(), dataset->shape().input_type) << name;
    EXPECT_EQ(sample.target.shape(), dataset->shape().target) << name;
    EXPECT_EQ(sample.target.type(), dataset->shape().target_type) << name;
  }
}

TEST(SyntheticTest, FingerprintFollowsOptionsSeedAndPart) {
  for (const std::string name : kNames) {
    const std::string base = build<Dataset>(name, kTrain)->fingerprint();
    EXPECT_EQ(base, build<Dataset>(name, kTrain)->fingerprint());
    std::set<std::string> all = {base, build<Dataset>(name, kEval)->fingerprint(),
                                 build<Dataset>(name, kOtherSeed)->fingerprint(),
                                 build<Dataset>("{type: " + name + ", length: 9}")->fingerprint()};
    EXPECT_EQ(all.size(), 4u) << name;
  }
}

TEST(SyntheticRegressionTest, PointsLieOnTheLineWithoutNoise) {
  const auto dataset = build<Dataset>(
      "{type: synthetic/regression, features: 3, slope: -4, intercept: 0.5, noise: 0}", kTrain);
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const Sample sample = dataset->sample(i);
    const auto x = sample.input.as<float>();
    EXPECT_NEAR(sample.target.as<float>()[0], -4 * (x[0] + x[1] + x[2]) + 0.5, 1e-5);
  }
}

TEST(SyntheticRegressionTest, NoiseHasTheDeviationAskedFor) {
  const auto dataset =
      build<Dataset>("{type: synthetic/regression, length: 20000, noise: 0.5}", kTrain);
  double square = 0;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const Sample sample = dataset->sample(i);
    const double error = sample.target.as<float>()[0] - (2 * sample.input.as<float>()[0] + 3);
    square += error * error;
  }
  EXPECT_NEAR(std::sqrt(square / 20000), 0.5, 0.02);
}

TEST(SyntheticGlyphsTest, EveryDigitComesEquallyOften) {
  const auto dataset = build<Dataset>("{type: synthetic/glyphs, length: 100}", kTrain);
  std::map<int64_t, int> counts;
  for (int64_t i = 0; i < 100; ++i) ++counts[dataset->sample(i).target.as<int64_t>()[0]];
  EXPECT_EQ(counts.size(), 10u);
  for (const auto& [digit, count] : counts) EXPECT_EQ(count, 10) << digit;
}

TEST(SyntheticGlyphsTest, PixelsAreInkOnPaper) {
  for (const int64_t size : {8, 28, 64}) {
    const auto dataset = build<Dataset>(
        "{type: synthetic/glyphs, length: 50, noise: 0, size: " + std::to_string(size) + "}",
        kTrain);
    for (int64_t i = 0; i < 50; ++i) {
      const Sample sample = dataset->sample(i);
      const auto pixels = sample.input.as<float>();
      double ink = 0;
      for (const float pixel : pixels) {
        ASSERT_TRUE(pixel >= 0 && pixel <= 1);
        ink += pixel;
      }
      const double share = ink / static_cast<double>(pixels.size());
      EXPECT_TRUE(share > 0.02 && share < 0.5) << share;
    }
  }
}

TEST(SyntheticGlyphsTest, WithoutDistortionADigitIsAlwaysOneOfItsGlyphs) {
  const auto dataset =
      build<Dataset>("{type: synthetic/glyphs, length: 400, noise: 0, distortion: 0}", kTrain);
  std::map<int64_t, std::set<std::string>> drawn;
  for (int64_t i = 0; i < 400; ++i) drawn[i % 10].insert(bytes_of(dataset->sample(i).input));
  for (const auto& [digit, images] : drawn) EXPECT_EQ(images.size(), glyphs_of(digit).size());
}

TEST(GlyphStrokesTest, CurvesPassThroughTheirPoints) {
  for (int64_t digit = 0; digit < 10; ++digit) {
    for (const Glyph& glyph : glyphs_of(digit)) {
      for (const Stroke& stroke : glyph) {
        const std::vector<Point> line = outline(stroke);
        for (const Point& wanted : stroke.points) {
          const bool passed = std::any_of(line.begin(), line.end(), [&](const Point& p) {
            return std::hypot(p.x - wanted.x, p.y - wanted.y) < 1e-9;
          });
          EXPECT_TRUE(passed) << digit;
        }
      }
    }
  }
}

/// The tokens of a sample as text: what goes in, then what is to come out ('_' where nothing is).
std::string spelled(const Dataset& dataset, int64_t index) {
  const std::vector<std::string> names = dataset.shape().labels;
  const Sample sample = dataset.sample(index);
  std::string text;
  for (const int64_t id : sample.input.as<int64_t>()) text += names[static_cast<size_t>(id)];
  text += " ";
  for (const int64_t id : sample.target.as<int64_t>()) {
    text += id < 0 ? "_" : names[static_cast<size_t>(id)];
  }
  return text;
}

struct Sum {
  int64_t a, b, answer;
};

Sum parsed(const std::string& text) {
  const size_t plus = text.find('+'), equals = text.find('='), end = text.find_first_of(". ");
  return {std::stoll(text.substr(0, plus)), std::stoll(text.substr(plus + 1, equals - plus - 1)),
          std::stoll(text.substr(equals + 1, end - equals - 1))};
}

TEST(SyntheticAdditionTest, AnswersAreRight) {
  for (const char* digits : {"2", "3", "8"}) {
    for (const char* padded : {"true", "false"}) {
      const auto dataset = build<Dataset>(
          "{type: synthetic/addition, length: 200, reversed: "
          "false, digits: " +
              std::string(digits) + ", padded: " + padded + "}",
          kTrain);
      for (int64_t i = 0; i < 200; ++i) {
        const Sum sum = parsed(spelled(*dataset, i));
        EXPECT_EQ(sum.a + sum.b, sum.answer) << spelled(*dataset, i);
      }
    }
  }
}

TEST(SyntheticAdditionTest, OnlyTheAnswerAndItsEndAreTargets) {
  for (const char* padded : {"true", "false"}) {
    const auto dataset = build<Dataset>(
        std::string("{type: synthetic/addition, digits: 3, padded: ") + padded + "}", kTrain);
    for (int64_t i = 0; i < 100; ++i) {
      const std::string text = spelled(*dataset, i);
      const size_t space = text.find(' ');
      const std::string input = text.substr(0, space), target = text.substr(space + 1);
      const std::string whole = input + ".";  // the last target follows the last input
      bool ended = false;
      for (size_t at = 0; at < target.size(); ++at) {
        const bool asked = at >= input.find('=') && !ended;
        EXPECT_EQ(target[at], asked ? whole[at + 1] : '_') << text;
        ended = ended || (asked && whole[at + 1] == '.');
      }
      EXPECT_TRUE(ended) << text;
    }
  }
}

TEST(SyntheticAdditionTest, DefaultsPadAndReverse) {
  const auto dataset = build<Dataset>("synthetic/addition", kTrain);
  EXPECT_EQ(dataset->shape().input, (Shape{9}));
  EXPECT_EQ(dataset->shape().vocab, 13);
  for (int64_t i = 0; i < 100; ++i) {
    std::string text = spelled(*dataset, i);
    ASSERT_EQ(text.substr(9), " _____" + text.substr(6, 3) + ".");
    std::reverse(text.begin() + 6, text.begin() + 9);
    const Sum sum = parsed(text);
    EXPECT_EQ(sum.a + sum.b, sum.answer) << text;
  }
}

TEST(SyntheticAdditionTest, EvaluationAsksOnlyWhatWasNeverTrainedOn) {
  const auto questions = [](const DatasetContext& context) {
    const auto dataset = build<Dataset>("{type: synthetic/addition, length: 8000}", context);
    std::set<std::string> all;
    for (int64_t i = 0; i < dataset->size(); ++i) all.insert(spelled(*dataset, i).substr(0, 6));
    return all;
  };
  const std::set<std::string> train = questions(kTrain), eval = questions(kEval);
  for (const std::string& question : eval) EXPECT_EQ(train.count(question), 0u) << question;
  EXPECT_NEAR(static_cast<double>(eval.size()), 1000, 100);
  EXPECT_GT(train.size(), 5000u);
}

TEST(SyntheticTest, WrongOptionsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"{type: synthetic/glyphs, size: 4}", "'size' must be between 8 and 1024, not 4"},
      {"{type: synthetic/glyphs, length: 0}", "'length' must be at least 1, not 0"},
      {"{type: synthetic/addition, digits: 1}", "'digits' must be between 2 and 8, not 1"},
      {"{type: synthetic/regression, noise: -1}", "'noise' must be at least 0, not -1"},
  };
  for (const auto& [recipe, message] : cases) {
    EXPECT_NE(complaint<Dataset>(recipe).find(message), std::string::npos)
        << complaint<Dataset>(recipe);
  }
}

}  // namespace
}  // namespace accel::synthetic_test
