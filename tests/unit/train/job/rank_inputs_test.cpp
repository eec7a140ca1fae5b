// Machines whose input files differ are found before training.
#include "train/job/rank_inputs.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/unit/data/number_dataset.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/parallel/ranks.h"
#include "tests/unit/train/job/make_job.h"
#include "train/job/same_inputs.h"

namespace accel::rank_inputs_test {
namespace {

using Lines = std::vector<std::string>;
using Change = ChangedDataset::Change;

std::shared_ptr<const Dataset> numbers(int64_t size) {
  return std::make_shared<NumberDataset>(size);
}

std::shared_ptr<const Dataset> changed(int64_t size, Change change) {
  return std::make_shared<ChangedDataset>(size, std::move(change));
}

Sample with_other_label(Sample sample) {
  sample.target = Array::label(77);
  return sample;
}

RankInputs inputs_with(const Dataset& dataset) {
  RankInputs inputs;
  inputs.datasets.push_back(digest_of("data.train", dataset, 0));
  return inputs_from(text_of(inputs));
}

/// "text (consent)" of each difference.
Lines differences_of(const RankInputs& main, const RankInputs& other) {
  Lines lines;
  for (const InputDifference& each : differences(main, other)) {
    lines.push_back(each.text + " (" + each.consent + ")");
  }
  return lines;
}

Lines differences_of(const Dataset& main, const Dataset& other) {
  return differences_of(inputs_with(main), inputs_with(other));
}

TEST(RankInputsTest, TheSameDataDoesNotDiffer) {
  EXPECT_EQ(differences_of(*numbers(100), *numbers(100)), Lines());
  EXPECT_EQ(differences_of(*numbers(1), *numbers(1)), Lines());
  EXPECT_EQ(differences_of(*numbers(0), *numbers(0)), Lines());
}

TEST(RankInputsTest, AnotherNumberOfSamplesCannotBePermitted) {
  EXPECT_EQ(differences_of(*numbers(100), *numbers(99)),
            Lines{"data.train: 99 samples instead of 100 ()"});
}

TEST(RankInputsTest, FirstAndLastSampleAreAlwaysCompared) {
  for (const int64_t odd : {0, 999'999}) {
    const auto other = changed(1'000'000, [odd](int64_t index, Sample sample) {
      return index == odd ? with_other_label(std::move(sample)) : std::move(sample);
    });
    EXPECT_EQ(differences_of(*numbers(1'000'000), *other),
              Lines{text("data.train: sample {} differs (data)", odd)});
  }
}

TEST(RankInputsTest, AtMostEightSamplesAreRead) {
  int64_t read = 0;
  const auto counted = changed(1'000, [&read](int64_t, Sample sample) {
    ++read;
    return sample;
  });
  digest_of("data.train", *counted, 3);
  EXPECT_GE(read, 2);
  EXPECT_LE(read, 8);
}

TEST(RankInputsTest, ASampleThatOneRankCannotReadIsNamed) {
  const auto torn =
      changed(2, [](int64_t, Sample) -> Sample { throw DataError("the file is truncated"); });
  EXPECT_EQ(differences_of(*numbers(2), *torn),
            Lines{"data.train: sample 0 cannot be read (data)"});
  EXPECT_EQ(differences_of(*torn, *torn), Lines());
}

TEST(RankInputsTest, NamesOfSamplesAreCompared) {
  RankInputs main = inputs_with(*numbers(2)), other = main;
  main.datasets[0].samples[1].name = "cat/2.jpg";
  other.datasets[0].samples[1].name = "cat/3.jpg";
  EXPECT_EQ(differences_of(main, other),
            Lines{"data.train: sample 1 ('cat/3.jpg') differs, not 'cat/2.jpg' (data)"});
}

TEST(RankInputsTest, ShapesAndContentAreCompared) {
  const RankInputs main = inputs_with(*numbers(50));
  RankInputs other = main;
  other.datasets[0].fingerprint = "other";
  EXPECT_EQ(differences_of(main, other),
            Lines{text("data.train: other content, although the {} samples that were compared are "
                       "equal (data)",
                       main.datasets[0].samples.size())});
  other.datasets[0].shape = "other";
  EXPECT_EQ(differences_of(main, other),
            Lines{"data.train: other classes, labels or token numbers ()"});
  other.datasets[0].input = "[3]";
  EXPECT_EQ(differences_of(main, other),
            Lines{"data.train: samples of shape [3] instead of [2] ()"});
  other.datasets.clear();
  EXPECT_EQ(differences_of(main, other), Lines{"data: 0 datasets with samples instead of 1 ()"});
}

TEST(RankInputsTest, FilesAreCompared) {
  const RankInputs main = {.files = {{"model.weights/config.json", "a"},
                                     {"data.train.0.tokenizer", "b"},
                                     {"plugins.acme/mlp", "c"}},
                           .datasets = {}};
  RankInputs other = inputs_from(text_of(main));
  EXPECT_EQ(differences_of(main, other), Lines());
  for (auto& [name, digest] : other.files) digest += "2";
  EXPECT_EQ(differences_of(main, other),
            (Lines{"model.weights/config.json: another file (model.weights)",
                   "data.train.0.tokenizer: another file (data)",
                   "plugins.acme/mlp: another file (plugins)"}));
  other.files = {main.files[1], main.files[2], {"model.weights/vocab.txt", "d"}};
  EXPECT_EQ(differences_of(main, other),
            (Lines{"model.weights/config.json: no such file (model.weights)",
                   "model.weights/vocab.txt: a file that rank 0 does not have (model.weights)"}));
}

/// A job of `dataset` on a rank of a group.
struct RankJob {
  RankJob(Communicator& group, std::shared_ptr<const Dataset> dataset) {
    job.mesh.world = {std::shared_ptr<void>(), &group};
    job.rank = group.rank();
    job.num_ranks = group.world();
    job.is_main = job.rank == 0;
    job.train_loader = std::make_unique<Loader>(
        std::move(dataset), std::vector<std::unique_ptr<Transform>>(), LoaderOptions{});
  }
  Job job;
};

/// What each rank throws, without what differs from machine to machine.
Lines errors_of(const std::function<std::shared_ptr<const Dataset>(int64_t rank)>& data,
                const Lines& allowed, int64_t world = 2) {
  Lines errors = join_each(requests_of(world), [&](Communicator& group) {
    RankJob rank(group, numbers(1));
    try {
      read_same_inputs(rank.job, allowed, [&] {
        RankJob other(group, data(group.rank()));
        rank.job.train_loader = std::move(other.job.train_loader);
      });
    } catch (const Error& error) {
      throw Error(error.code(),
                  text("{} {} | {}", static_cast<int>(error.code()), error.what(), error.hint()));
    }
  });
  const std::regex process("[^ (]+, process [0-9]+");
  for (std::string& error : errors) error = std::regex_replace(error, process, "HOST");
  return errors;
}

TEST(SameInputsTest, RanksWithTheSameInputsGoOn) {
  EXPECT_EQ(errors_of([](int64_t) { return numbers(9); }, {}, 3), Lines(3));
}

TEST(SameInputsTest, AllRanksNameTheOneThatDiffers) {
  const std::string wanted =
      "3 rank 1 (HOST) has read other inputs than rank 0 (HOST):\n"
      "  data.train: 8 samples instead of 9\n"
      "  these ranks differ from rank 0 too: 2 | give all machines the same files";
  const auto data = [](int64_t rank) { return numbers(9 - rank); };
  EXPECT_EQ(errors_of(data, {"data"}, 3), Lines(3, wanted));
}

TEST(SameInputsTest, OtherSamplesNeedConsent) {
  const auto data = [](int64_t rank) {
    return changed(9, [rank](int64_t, Sample sample) {
      return rank == 1 ? with_other_label(std::move(sample)) : std::move(sample);
    });
  };
  const std::string wanted =
      "3 rank 1 (HOST) has read other inputs than rank 0 (HOST):\n"
      "  data.train: sample 0 differs | give all machines the same files, or add --allow data if "
      "they are meant to differ";
  EXPECT_EQ(errors_of(data, {"model"}), Lines(2, wanted));
  testing::internal::CaptureStderr();
  EXPECT_EQ(errors_of(data, {"data"}), Lines(2));
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_NE(shown.find("warning: as --allow permits, rank 1 ("), shown.npos) << shown;
  EXPECT_NE(shown.find("data.train: sample 0 differs\n"), shown.npos) << shown;
}

TEST(SameInputsTest, AnErrorOfOneRankIsTheErrorOfAll) {
  const auto data = [](int64_t rank) {
    if (rank == 1) throw DataError("the file is truncated", "copy it again");
    return numbers(9);
  };
  EXPECT_EQ(errors_of(data, {}),
            Lines(2, "3 rank 1 (HOST) cannot start: the file is truncated | copy it again"));
}

TEST(SameInputsTest, AnErrorOfAllRanksStaysAsItIs) {
  const auto data = [](int64_t) -> std::shared_ptr<const Dataset> {
    throw DataError("the file is truncated", "copy it again");
  };
  EXPECT_EQ(errors_of(data, {}), Lines(2, "3 the file is truncated | copy it again"));
}

/// Names of the files that the options of a recipe read.
Lines files_of(const std::string& recipe) {
  Job job;
  job.registry = all_components();
  job.resolved = parse_recipe("r.yaml", recipe);
  job.recipe.plugin_identities = {{"acme/mlp", "1", "digest"}};
  job.weights_fingerprint = "weights";
  Lines names;
  for (const auto& [name, digest] : inputs_of(job).files) names.push_back(name);
  return names;
}

TEST(InputsOfTest, FilesOfModelsTokenizersAndPluginsAreListed) {
  const TempFolder folder;
  for (const char* name : {"config.json", "model.safetensors", "vocab.txt", ".cache.json",
                           "README.md", "model.safetensors.index.json"}) {
    folder.write(name, name);
  }
  const std::string path = folder.path();
  EXPECT_EQ(files_of("model: {type: bert, weights: " + path + "}\n" +
                     "data: {train: [{type: jsonl, path: " + path + "/x.jsonl, tokenizer: " + path +
                     "/vocab.txt}]}\n" + "trackers: [{type: csv, path: " + path + "}]\n"),
            (Lines{"model.weights/config.json", "model.weights/vocab.txt", "data.train.0.tokenizer",
                   "model.weights", "plugins.acme/mlp"}));
}

TEST(InputsOfTest, WeightsOfTeachersAndAdaptersAreListed) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  folder.write("model.safetensors", "weights");
  const std::string path = folder.path();
  EXPECT_EQ(files_of("model: {type: gpt, lora: {rank: 2, adapter: " + path + "}}\n" +
                     "task: {type: distill, teacher: {type: bert, weights: " + path + "}}\n"),
            (Lines{"model.lora.adapter/config.json", "model.lora.adapter/model.safetensors",
                   "task.teacher.weights/config.json", "task.teacher.weights/model.safetensors",
                   "model.weights", "plugins.acme/mlp"}));
}

}  // namespace
}  // namespace accel::rank_inputs_test
