// Recall of retrieval: ranks of partners, equal images and texts, and ties.
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/unit/build_component.h"
#include "train/metrics/sample_metric.h"

namespace accel::retrieval_recall_test {
namespace {

using Values = std::map<std::string, double>;

MetricContext pairs() {
  MetricContext context;
  context.data.input = {1, 1, 1};
  context.data.target = {1};
  context.data.vocab = 100;
  return context;
}

/// Of pairs with these numbers as images and texts. An odd number of batches.
Values recall(const std::string& metric, const at::Tensor& image, const at::Tensor& text,
              const at::Tensor& images, const at::Tensor& texts) {
  const auto made = build<Metric>(metric, pairs());
  const at::Tensor output = at::stack({image, text}, 1);
  const int64_t all = images.size(0), first = all / 3;
  for (const auto& [begin, count] : {std::pair{int64_t{0}, first}, {first, all - first}}) {
    Batch batch;
    batch.inputs = images.narrow(0, begin, count).to(at::kFloat).view({-1, 1, 1, 1});
    batch.targets = texts.narrow(0, begin, count).view({-1, 1});
    batch.ids.resize(static_cast<size_t>(count));
    made->update({output.narrow(0, begin, count), batch, 0, static_cast<double>(count)});
  }
  Values out;
  for (const auto& [name, value] : made->values()) out[name] = value;
  return out;
}

TEST(RetrievalRecallTest, APartnerIsWithinTheKMostSimilar) {
  const at::Tensor numbers = at::arange(6);
  const at::Tensor image = at::eye(6);
  // The texts of the images 0 and 1 are exchanged, and the others are their images'.
  const at::Tensor text =
      image.index_select(0, at::tensor(std::vector<int64_t>{1, 0, 2, 3, 4, 5})).add(image.mul(0.5));
  const Values found = recall("{type: retrieval_recall, k: [1, 2]}", image, text, numbers, numbers);
  EXPECT_EQ(found, (Values{{"image_to_text_recall_1", 4.0 / 6},
                           {"text_to_image_recall_1", 4.0 / 6},
                           {"image_to_text_recall_2", 1},
                           {"text_to_image_recall_2", 1}}));
}

TEST(RetrievalRecallTest, EqualImagesAndTextsCountAsOne) {
  // Two images with three texts each; the texts of the second image are two.
  const at::Tensor images = at::tensor(std::vector<int64_t>{1, 1, 1, 2, 2, 2});
  const at::Tensor texts = at::tensor(std::vector<int64_t>{1, 2, 3, 4, 5, 4});
  const at::Tensor both = at::eye(2);
  const at::Tensor image = both.index_select(0, images.sub(1));
  // Of the first image's texts one is near the second image.
  const at::Tensor text =
      both.index_select(0, at::tensor(std::vector<int64_t>{0, 1, 0, 1, 1, 1})).mul(0.5);
  const Values found = recall("{type: retrieval_recall, k: 1}", image, text, images, texts);
  EXPECT_EQ(found.at("image_to_text_recall_1"), 0.5) << "of the second image a wrong text ties";
  EXPECT_EQ(found.at("text_to_image_recall_1"), 4.0 / 5);
}

TEST(RetrievalRecallTest, EqualEmbeddingsFindNothing) {
  const at::Tensor numbers = at::arange(8), one = at::zeros({8, 3}).add(0.5);
  const Values found = recall("retrieval_recall", one, one, numbers, numbers);
  EXPECT_EQ(found, (Values{{"image_to_text_recall_1", 0},
                           {"text_to_image_recall_1", 0},
                           {"image_to_text_recall_5", 0},
                           {"text_to_image_recall_5", 0}}));
}

TEST(RetrievalRecallTest, WithoutSamplesItIsNotANumber) {
  for (const auto& [name, value] : build<Metric>("retrieval_recall", pairs())->values()) {
    EXPECT_TRUE(std::isnan(value)) << name;
  }
}

TEST(RetrievalRecallTest, OtherDataIsRefused) {
  MetricContext context = pairs();
  context.data.target = {};
  EXPECT_EQ(complaint<Metric>("retrieval_recall", context),
            "the metric 'retrieval_recall' needs pairs of an image and a text");
  EXPECT_NE(
      complaint<Metric>("{type: retrieval_recall, k: []}", pairs()).find("'k' must not be empty"),
      std::string::npos);
}

}  // namespace
}  // namespace accel::retrieval_recall_test
