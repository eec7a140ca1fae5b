#include "runner/plan/small_data.h"

#include <algorithm>
#include <utility>

#include "core/api/sequence_pairs.h"

namespace accel {
namespace {

DataShape with_classes(Shape input) {
  DataShape shape;
  shape.input = std::move(input);
  shape.classes = 2;
  return shape;
}

DataShape with_number(Shape input) {
  DataShape shape;
  shape.input = std::move(input);
  shape.target_type = DType::kF32;
  return shape;
}

/// Of a prompt with its completion: more than the completion, at most what the model supports.
constexpr int64_t kPromptLengths[] = {8, 64, 512, 4096};

/// Texts with a token as target at each position, a class, a second answer, a label, an answer
/// within it, a target, a number, several labels, or a class of each token; and prompts.
std::vector<DataShape> small_texts(int64_t vocab) {
  DataShape tokens;
  tokens.input = tokens.target = {1};
  tokens.input_type = DType::kI64;
  tokens.vocab = vocab;
  DataShape classes = tokens;
  classes.target = {};
  classes.classes = 2;
  classes.padding.emplace();
  std::vector<DataShape> texts = {tokens, classes};
  for (const Shape& target : {Shape{kPairSize, 1}, Shape{1, 1}, Shape{1, 2}}) {
    DataShape& answers = texts.emplace_back(tokens);
    answers.target = target;
    answers.padding.emplace();
    answers.segments = 2;
  }
  DataShape& targets = texts.emplace_back(classes);
  targets.target = {1, 0};
  targets.classes = 0;
  for (const Shape& target : {Shape{}, Shape{2}}) {
    DataShape& numbers = texts.emplace_back(classes);
    numbers.target = target;
    numbers.target_type = DType::kF32;
    numbers.classes = 0;
  }
  DataShape& words = texts.emplace_back(classes);
  words.target = words.input;
  words.labels = {"O", "B-X"};
  for (const int64_t length : kPromptLengths) {
    DataShape& prompts = texts.emplace_back(classes);
    prompts.input = {length};
    prompts.target = {0, length};
    prompts.classes = 0;
  }
  return texts;
}

/// An image with a text.
DataShape with_text(Shape input, int64_t vocab) {
  DataShape shape;
  shape.input = std::move(input);
  shape.target = {1};
  shape.vocab = vocab;
  return shape;
}

/// The smallest first.
std::vector<DataShape> small_shapes(int64_t vocab) {
  std::vector<DataShape> shapes = {with_classes({1}), with_number({1})};
  for (DataShape& text : small_texts(vocab)) shapes.push_back(std::move(text));
  for (const int64_t side : {1, 16, 64}) {
    for (const int64_t channels : {1, 3}) {
      shapes.push_back(with_classes({channels, side, side}));
      shapes.push_back(with_text({channels, side, side}, vocab));
    }
  }
  return shapes;
}

}  // namespace

std::vector<DataSchema> small_data(const RecipeOptions& recipe) {
  const int64_t world = recipe.accelerator.num_processes.value_or(1);
  const int64_t samples = std::max<int64_t>(1, recipe.train.batch);
  // Ranks of 'tp' divide the rows of an embedding.
  const int64_t vocab = std::max<int64_t>(2, recipe.accelerator.parallelism.tp);
  std::vector<DataSchema> all;
  for (DataShape& shape : small_shapes(vocab)) {
    all.push_back({std::move(shape), samples * world, samples});
  }
  return all;
}

}  // namespace accel
