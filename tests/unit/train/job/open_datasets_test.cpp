// The data of a job: held-out samples, selected samples, and values fitted to the training samples.
#include "train/job/open_datasets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "data/loader/mixture.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"
#include "train/job/mixture_points.h"

namespace accel::open_datasets_test {
namespace {

/// The folder with the data is the working folder meanwhile.
class OpenDatasetsTest : public testing::Test {
 protected:
  OpenDatasetsTest() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
    std::string lines = "id,user,age,kind\n";
    for (int i = 0; i < 100; ++i) {
      lines += std::to_string(i) + "," + std::to_string(i / 5) + "," +
               (i % 10 == 0 ? "" : std::to_string(i % 7)) + "," + (i % 4 == 0 ? "yes" : "no") +
               "\n";
    }
    folder_.write("t.csv", lines);
    folder_.write("letters.txt", std::string(800, 'a'));
  }
  ~OpenDatasetsTest() override { std::filesystem::current_path(before_); }

  static std::string recipe(const std::string& data) {
    return "model: {type: mlp, hidden_sizes: [4]}\ndata:\n" + data +
           "train: {until: 1 step, batch: 4}\n";
  }

  static std::string complaint(const std::string& data) {
    try {
      make_job(recipe(data));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  /// Values of the column `id`, the first feature.
  static std::vector<int64_t> ids(const Loader& loader) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < loader.dataset().size(); ++i) {
      out.push_back(static_cast<int64_t>(loader.dataset().sample(i).input.as<float>()[0]));
    }
    return out;
  }

  TempFolder folder_;

 private:
  std::filesystem::path before_;
};

constexpr auto kTable =
    "  train: {type: csv, path: t.csv, target: kind, features: [id, age], fill: mean}\n";

TEST_F(OpenDatasetsTest, TrainingAndEvalDataMustMeanTheSameByTheirTargets) {
  const auto refusal = [&](const std::string& train, const std::string& eval,
                           const std::string& more = "") {
    folder_.write("a.csv", "x,y\n" + train);
    folder_.write("b.csv", "x,y\n" + eval);
    return complaint("  train: {type: csv, path: a.csv, target: y" + more +
                     "}\n  eval: {type: csv, path: b.csv, target: y" + more + "}\n");
  };
  EXPECT_EQ(refusal("1,1\n2,2\n", "1,one\n2,two\n"),
            "the classes of the training data are the numbers 0 to 2, those of the eval data the "
            "labels ['one', 'two']");
  EXPECT_EQ(refusal("1,no\n2,yes\n", "1,0\n2,1\n"),
            "the classes of the training data are the labels ['no', 'yes'], those of the eval data "
            "the numbers 0 to 1");
  EXPECT_EQ(refusal("1,1\n2,2\n", "1,1.0\n2,2.0\n"), "");
  EXPECT_EQ(refusal("1,\"[0, 2]\"\n2,[1]\n", "1,[0]\n2,[1]\n", ", target_type: labels"),
            "targets of the training data have the shape [3], those of the eval data [2]");
}

TEST_F(OpenDatasetsTest, HeldOutSamplesAreNotTrainedOn) {
  const auto job = make_job(recipe(std::string(kTable) + "  split: {eval: 10%}\n"));
  EXPECT_EQ(job->train_samples, 90);
  EXPECT_EQ(job->eval_samples, 10);
  EXPECT_EQ(job->held_out, "10 % (stratified by class, seed 0)");
  std::vector<int64_t> all = ids(*job->train_loader), held_out = ids(*job->eval_loader);
  all.insert(all.end(), held_out.begin(), held_out.end());
  std::sort(all.begin(), all.end());
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], i);
  // The seed of the recipe does not matter, that of the split does.
  const std::string split = "  split: {eval: 10, seed: ";
  EXPECT_EQ(ids(*make_job("seed: 3\n" + recipe(kTable + split + "0}\n"))->eval_loader), held_out);
  EXPECT_NE(ids(*make_job(recipe(kTable + split + "1}\n"))->eval_loader), held_out);
  EXPECT_NE(make_job(recipe(kTable + split + "1}\n"))->data_fingerprint, job->data_fingerprint);
}

TEST_F(OpenDatasetsTest, ValuesAreFittedToTheTrainingSamples) {
  const auto job = make_job(recipe(std::string(kTable) + "  split: {eval: 20%}\n"));
  const Dataset& train = job->train_loader->dataset();
  double sum = 0, count = 0;
  for (int64_t i = 0; i < train.size(); ++i) {
    const Sample sample = train.sample(i);
    if (static_cast<int64_t>(sample.input.as<float>()[0]) % 10 == 0) continue;
    sum += static_cast<double>(sample.input.as<float>()[1]);
    ++count;
  }
  for (const Loader* loader : {job->train_loader.get(), job->eval_loader.get()}) {
    for (int64_t i = 0; i < loader->dataset().size(); ++i) {
      const Sample sample = loader->dataset().sample(i);
      if (static_cast<int64_t>(sample.input.as<float>()[0]) % 10 != 0) continue;
      EXPECT_EQ(sample.input.as<float>()[1], static_cast<float>(sum / count));
    }
  }
  EXPECT_TRUE(job->fitted_values.starts_with("{\"fill\":{\"id\":")) << job->fitted_values;
  ASSERT_EQ(job->fill_notes.size(), 1u);
  EXPECT_TRUE(job->fill_notes[0].starts_with("age: 10 of 100 missing, filled with the mean "));
}

TEST_F(OpenDatasetsTest, ASeparateFileTakesTheValuesOfTheTrainingData) {
  folder_.write("e.csv", "id,user,age,kind\n1,1,,no\n2,2,1000,yes\n");
  const auto job = make_job(
      recipe(std::string(kTable) +
             "  eval: {type: csv, path: e.csv, target: kind, features: [id, age], fill: mean}\n"));
  const float filled = job->eval_loader->dataset().sample(0).input.as<float>()[1];
  EXPECT_EQ(filled, job->train_loader->dataset().sample(0).input.as<float>()[1]);
  EXPECT_LT(filled, 7);
  ASSERT_EQ(job->fill_notes.size(), 2u);
  EXPECT_TRUE(job->fill_notes[1].starts_with("eval: age: 1 of 2 missing, filled with the mean "));
}

TEST_F(OpenDatasetsTest, GroupsStayTogether) {
  const auto job = make_job(recipe(std::string(kTable) + "  split: {eval: 20%, group: user}\n"));
  EXPECT_EQ(job->held_out, "20 % (whole groups of 'user', seed 0)");
  EXPECT_EQ(job->eval_samples, 20);
  const std::vector<int64_t> held_out = ids(*job->eval_loader);
  for (const int64_t id : held_out) {
    EXPECT_TRUE(std::binary_search(held_out.begin(), held_out.end(), id / 5 * 5));
  }
}

TEST_F(OpenDatasetsTest, EachDatasetOfAListIsSplit) {
  const std::string part = "{type: csv, path: t.csv, target: kind, features: [id]";
  const auto job = make_job(recipe("  train:\n    - " + part + ", weight: 3}\n    - " + part +
                                   ", head: 40, weight: 1}\n  split: {eval: 14}\n"));
  EXPECT_EQ(job->train_samples, 126);
  EXPECT_EQ(job->eval_samples, 14);
  const std::vector<int64_t> held_out = ids(*job->eval_loader);
  EXPECT_EQ(
      std::count_if(held_out.begin() + 10, held_out.end(), [](int64_t id) { return id < 40; }), 4);
}

TEST_F(OpenDatasetsTest, ALimitIsASpreadSampleAndHeadTheFirst) {
  const std::string part = "  train: {type: csv, path: t.csv, target: kind, features: [id], ";
  const auto head = make_job(recipe(part + "head: 8}\n"));
  EXPECT_EQ(ids(*head->train_loader), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(head->data_fingerprint.ends_with("[:8]"));
  const auto spread = make_job(recipe(part + "limit: 8}\n"));
  const std::vector<int64_t> drawn = ids(*spread->train_loader);
  ASSERT_EQ(drawn.size(), 8u);
  EXPECT_GT(drawn.back(), 50);
  EXPECT_EQ(std::count_if(drawn.begin(), drawn.end(), [](int64_t id) { return id % 4 == 0; }), 2);
  EXPECT_NE(ids(*make_job("seed: 3\n" + recipe(part + "limit: 8}\n"))->train_loader), drawn);
  EXPECT_EQ(ids(*make_job(recipe(part + "limit: 800}\n"))->train_loader).size(), 100u);
}

TEST_F(OpenDatasetsTest, WindowsOfATextAreSplitWithoutOverlap) {
  const std::string rest =
      "data:\n  train: {type: text, path: letters.txt, level: bytes, max_seq_len: 8, stride: 1}\n"
      "  split: {eval: 100}\ntrain: {until: 1 step, batch: 2}\n";
  const auto job =
      make_job("model: {type: gpt, num_layers: 1, num_heads: 1, hidden_size: 8}\n" + rest);
  EXPECT_EQ(job->train_samples, 792 - 100 - 8);
  EXPECT_EQ(job->eval_samples, 100);
  EXPECT_EQ(job->held_out, "100 samples (the last windows, 8 overlapping unused)");
}

TEST_F(OpenDatasetsTest, RefusalsNameThePlace) {
  EXPECT_EQ(complaint("  train: {type: synthetic/glyphs, length: 90}\n"
                      "  split: {eval: 10%, group: user}\n"),
            "r.yaml:4:29: error: 'group' names a column, but the dataset 'synthetic/glyphs' has no "
            "columns\n"
            "      split: {eval: 10%, group: user}\n"
            "                                ^\n"
            "  hint: tables, JSON Lines, Parquet and Arrow files have them; leave 'group' out\n");
  EXPECT_EQ(complaint("  train: {type: csv, path: t.csv, target: age, target_type: number, fill: "
                      "{age: drop}, features: [id]}\n"
                      "  split: {eval: 10%, stratify: true}\n"),
            "r.yaml:4:32: error: 'stratify' is true, but the dataset 'csv' has no class labels\n"
            "      split: {eval: 10%, stratify: true}\n"
            "                                   ^\n"
            "  hint: leave 'stratify' out: auto stratifies where there are classes\n");
  EXPECT_EQ(complaint(std::string(kTable) + "  split: {eval: 100}\n"),
            "r.yaml:4:17: error: 'split' holds out 100 of 100 samples, which leaves none to train "
            "on\n"
            "      split: {eval: 100}\n"
            "                    ^\n"
            "  hint: lower 'eval' of 'split'\n");
}

/// Two parts of the table with these weights, of 25 steps an epoch.
std::string mixture(const std::string& first, const std::string& second) {
  const std::string table =
      "{type: csv, path: t.csv, target: kind, features: [id, age], fill: mean, head: 50, weight: ";
  return "  train:\n    - " + table + first + "}\n    - " + table + second + "}\n";
}

std::string refusal_of(const std::string& text) {
  try {
    make_job(text);
  } catch (const RecipeError& error) {
    return error.diagnostics()[0].message + " | " + error.diagnostics()[0].hint;
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(OpenDatasetsTest, PointsOfWeightsBecomeSteps) {
  const std::string text = recipe(mixture("{0: 3, 1 epochs: 1, 80%: 1}", "{0: 1, 10: 3}"));
  const auto job = make_job(std::string(text).replace(text.find("1 step"), 6, "2 epochs"));
  const auto& dataset = dynamic_cast<const Mixture&>(job->train_loader->dataset());
  EXPECT_EQ(dataset.proportions(),
            "75 % : 25 % at step 0, 42.3 % : 57.7 % at step 10, 25 % : 75 % at step 25, "
            "25 % : 75 % at step 40");
  EXPECT_TRUE(dataset.fingerprint().ends_with(
      " as {0 steps: 3, 1 epoch: 1, 80%: 1}:{0 steps: 1, 10 steps: 3} of 2 epochs"))
      << dataset.fingerprint();
}

TEST_F(OpenDatasetsTest, AMixtureIsSummedUp) {
  const std::string scheduled = recipe(mixture("{0: 3, 10: 1}", "1"));
  const std::string path = std::filesystem::current_path() / "t.csv";
  const std::string parts = "1 csv " + path + ", 2 csv " + path + "; ";
  EXPECT_EQ(mixture_summary(*make_job(scheduled)),
            parts + "75 % : 25 % at step 0, 50 % : 50 % at step 10, linear between them");
  std::string stages = scheduled;
  stages.insert(stages.find("  train:"), "  loader: {mixture: stages}\n");
  EXPECT_TRUE(mixture_summary(*make_job(stages)).ends_with("at step 10, in stages"));
  EXPECT_EQ(mixture_summary(*make_job(recipe(mixture("3", "1")))), parts + "75 % : 25 %");
}

TEST_F(OpenDatasetsTest, PointsOfWeightsMustFitTheRun) {
  const auto refused = [&](const std::string& first, const std::string& second,
                           const std::string& until) {
    const std::string text = recipe(mixture(first, second));
    return refusal_of(std::string(text).replace(text.find("1 step"), 6, until));
  };
  EXPECT_EQ(refused("{0: 3, 80%: 1}", "1", "3 min"),
            "'weight' has a point in percent, but the run has no known number of steps | give "
            "'train.until' in steps, epochs or samples, or the point in steps");
  EXPECT_EQ(refused("{30: 3, 1 epochs: 1}", "1", "3 epochs"),
            "the point '1 epoch' of 'weight' is step 25, which is not behind that of '30 steps' | "
            "write the points in their order");
  EXPECT_EQ(refused("{0: 3, 5: 0}", "{0: 0, 5: 0, 9: 1}", "3 epochs"),
            "at step 5 the 'weight' of every dataset is 0 | give one of them a weight above 0 "
            "there");
  EXPECT_EQ(refused("{0: 3, 5: 0}", "none", "3 epochs"), "1 of 2 datasets have a 'weight'");
}

}  // namespace
}  // namespace accel::open_datasets_test
