// Samples that cannot be read: reported with their place, or left out and counted.
#include "data/datasets/skipped_samples.h"

#include <gtest/gtest.h>

#include "data/loader/mixture.h"
#include "data/loader/selected_samples.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/tar_writer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::skipped_samples_test {
namespace {

class BadSamplesTest : public testing::Test {
 protected:
  BadSamplesTest() { folder_.write("tokenizer.json", kSmallTokenizer); }

  /// Of the file `t` with that content; warnings go to warned_.
  std::shared_ptr<Dataset> open(const std::string& content, const std::string& options) {
    folder_.write("t", content);
    testing::internal::CaptureStderr();
    try {
      std::shared_ptr<Dataset> data = build<Dataset>("{path: " + path_ + ", " + options + "}");
      warned_ = testing::internal::GetCapturedStderr();
      return data;
    } catch (...) {
      warned_ = testing::internal::GetCapturedStderr();
      throw;
    }
  }

  std::string texts() const { return "tokenizer: " + folder_.path("tokenizer.json") + ", "; }

  TempFolder folder_;
  const std::string path_ = folder_.path("t");
  std::string warned_;
};

struct SkipCase {
  const char* name;
  std::string content;
  std::string options;
  bool texts;
  std::string problems;  // PATH stands for the file
  std::vector<double> targets;
};

void PrintTo(const SkipCase& test, std::ostream* out) {
  *out << test.name;
}

const std::string kGood = "{\"text\": \"good film\", \"y\": 1}\n";

const SkipCase kSkips[] = {
    {"json_lines",
     kGood + "{\"text\": \n" + "{\"y\": 2}\n" + "{\"text\": \"bad\", \"y\": 3}\n",
     "type: jsonl, target: y, target_type: number",
     true,
     "  PATH:2 is not JSON\n  PATH:3 has no field 'text'\n",
     {1, 3}},
    {"a target that is no number",
     kGood + "{\"text\": \"bad\", \"y\": \"x\"}\n" + kGood,
     "type: jsonl, target: y, target_type: number",
     true,
     "  PATH:2: field 'y' holds 'x', not a number\n",
     {1, 1}},
    {"a label the recipe does not list",
     kGood + "{\"text\": \"bad\", \"y\": \"x\"}\n" + kGood,
     "type: jsonl, target: y, labels: [0, 1]",
     true,
     "  PATH:2: field 'y' holds 'x', none of the labels of the recipe\n",
     {1, 1}},
    {"rows of numbers",
     "a,b,y\n1,2,0.5\n1,2\n1,x,7\n3,4,1.5\n5,6,z\n",
     "type: csv, target: y, target_type: number",
     false,
     "  PATH:3: has 2 fields, the first line has 3\n  PATH:4: column 'b' holds 'x', not a "
     "number\n  PATH:6: column 'y' holds 'z', not a number\n",
     {0.5, 1.5}},
    {"a quote that is never closed",
     "a,y\n1,0\n\"2,1\n3,2\n",
     "type: csv, target: y",
     false,
     "  PATH:3: an unclosed quote\n",
     {0, 2}},
    {"a record of several lines",
     "a,y\n\"1\n\",0,0\n3,2\n",
     "type: csv, target: y, header: true",
     false,
     "  PATH:2: has 3 fields, the first line has 2\n",
     {2}},
    {"the row that would show the header",
     "a,y\n1,2,3\n4,1\n",
     "type: csv, target: y",
     false,
     "  PATH:2: has 3 fields, the first line has 2\n",
     {1}},
    {"a category the recipe does not list",
     "c,y\nred,0\nblue,1\ngreen,2\n",
     "type: csv, target: y, one_hot: {c: [red, green]}",
     false,
     "  PATH:3: column 'c' holds 'blue', none of the values the recipe lists\n",
     {0, 2}},
    {"rows of texts",
     "good\t0\nbad\tx\nfilm\t1\n",
     "type: tsv, text: 0, target: 1, labels: [0, 1]",
     true,
     "  PATH:2: column 1 holds 'x', none of the values the recipe lists\n",
     {0, 1}},
};

class Skipping : public BadSamplesTest, public testing::WithParamInterface<SkipCase> {};

double target_of(const Dataset& data, int64_t index) {
  const Array target = data.sample(index).target;
  return target.type() == DType::kF32 ? static_cast<double>(target.as<float>()[0])
                                      : static_cast<double>(target.as<int64_t>()[0]);
}

TEST_P(Skipping, LeavesOutWhatStopWouldRefuse) {
  const SkipCase& test = GetParam();
  const std::string options = (test.texts ? texts() : "") + test.options;
  std::string problems = test.problems;
  for (size_t at; (at = problems.find("PATH")) != problems.npos;) problems.replace(at, 4, path_);
  const auto count = std::count(problems.begin(), problems.end(), '\n');
  // What is kept has the targets it had, and the classes of those kept alone.
  const auto data = open(test.content, options + ", on_bad_sample: skip(3)");
  ASSERT_EQ(data->size(), static_cast<int64_t>(test.targets.size()));
  EXPECT_EQ(left_out(*data), count);
  for (int64_t i = 0; i < data->size(); ++i) {
    EXPECT_EQ(target_of(*data, i), test.targets[static_cast<size_t>(i)]) << i;
  }
  EXPECT_EQ(warned_, "warning: '" + path_ + "': " + std::to_string(count) +
                         (count == 1 ? " sample" : " samples") + " skipped as unreadable, " +
                         std::to_string(data->size()) +
                         (data->size() == 1 ? " sample" : " samples") + " read\n" + problems);
  // The first of them is what ends a run that leaves nothing out.
  const std::string first = problems.substr(2, problems.find('\n') - 2);
  const std::string refused = complaint([&] { open(test.content, options); });
  EXPECT_EQ(refused.substr(0, refused.find('\n')), first);
  EXPECT_EQ(warned_, "");
}

INSTANTIATE_TEST_SUITE_P(All, Skipping, testing::ValuesIn(kSkips));

TEST_F(BadSamplesTest, OneMoreThanAllowedIsAnError) {
  EXPECT_EQ(complaint([&] {
              open("{\n" + kGood + "[]\n" + kGood + "2\n",
                   texts() + "type: jsonl, on_bad_sample: skip(2)");
            }),
            path_ + ":5 is not a JSON object; 'on_bad_sample' allows 2 samples of '" + path_ +
                "' to be skipped, and this is one more\n"
                "repair the data, or raise the number in 'skip(2)'");
}

TEST_F(BadSamplesTest, SomethingMustBeLeft) {
  EXPECT_EQ(complaint([&] { open("{\n[]\n", texts() + "type: jsonl, on_bad_sample: skip(9)"); }),
            "'" + path_ + "' has no readable sample; the first error: " + path_ + ":1 is not JSON");
}

TEST_F(BadSamplesTest, OnlyThreeAreShown) {
  open("{\n{\n{\n{\n{\n" + kGood, texts() + "type: jsonl, on_bad_sample: skip(5)");
  EXPECT_EQ(std::count(warned_.begin(), warned_.end(), '\n'), 5);
  EXPECT_TRUE(warned_.ends_with("\n  ...\n")) << warned_;
}

/// A tokenizer without special tokens gives an empty text no token.
TEST_F(BadSamplesTest, TextsWithoutTokensAreLeftOut) {
  std::string plain = kSmallTokenizer;
  const size_t processor = plain.find("\"post_processor\"");
  plain.erase(processor, plain.find("\"decoder\"") - processor);
  folder_.write("tokenizer.json", plain);
  const std::string lines =
      kGood + "{\"text\": \"\", \"y\": 2}\n" + "{\"text\": \"bad\", \"y\": 3}\n";
  const std::string options = texts() + "type: jsonl, target: y, target_type: number";
  EXPECT_EQ(complaint([&] { open(lines, options); }),
            path_ +
                ":2: a text without any token\nleave such records out, or use a tokenizer that "
                "adds special tokens");
  const auto data = open(lines, options + ", on_bad_sample: skip(1)");
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(target_of(*data, 1), 3);
  EXPECT_EQ(data->sample(1).input.as<int64_t>()[0], 6);
  EXPECT_EQ(left_out(*data), 1);
  const auto table =
      open("good\t1\n\t2\nbad\t3\n", texts() +
                                         "type: tsv, text: 0, target: 1, target_type: number, "
                                         "on_bad_sample: skip(1)");
  ASSERT_EQ(table->size(), 2);
  EXPECT_EQ(target_of(*table, 1), 3);
}

/// Tokens kept on disk are those of other records when other ones are left out.
TEST_F(BadSamplesTest, KeptTokensAreThoseOfTheRecordsLeft) {
  std::string lines;
  const std::string filler(1000, 'z');
  for (int i = 0; i < 5000; ++i) {
    lines += "{\"text\": \"" + filler + " good\", \"y\": \"" + (i % 2 ? "a" : "b") + "\"}\n";
  }
  const std::string options = texts() + "type: jsonl, target: y, cache: " + folder_.path("cache") +
                              ", on_bad_sample: skip(2500), labels: ";
  for (int round = 0; round < 2; ++round) {
    const auto some = open(lines, options + "[a]");
    EXPECT_EQ(some->size(), 2500);
    const auto all = open(lines, options + "[a, b]");
    EXPECT_EQ(all->size(), 5000);
    EXPECT_EQ(target_of(*all, 0), 1);
    EXPECT_EQ(left_out(*all), 0);
  }
}

TEST_F(BadSamplesTest, DocumentsAndConversationsAreLeftOutToo) {
  const auto text = open(kGood + "{}\n" + kGood,
                         texts() +
                             "type: text, level: tokens, json_field: text, max_seq_len: 1, "
                             "on_bad_sample: skip(1)");
  EXPECT_EQ(left_out(*text), 1);
  folder_.write("template", "{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::string talk =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"good \"}, {\"role\": \"assistant\", "
      "\"content\": \"film\"}]}\n";
  const auto chat = open(talk + "{\"messages\": 3}\n" + talk,
                         texts() + "type: chat, chat_template: " + folder_.path("template") +
                             ", answers_only: false, on_bad_sample: skip(1)");
  EXPECT_EQ(chat->size(), 2);
  EXPECT_EQ(left_out(*chat), 1);
}

class BadImagesTest : public testing::Test {
 protected:
  static std::string image(const std::string& name) {
    return file_content(std::string(std::getenv("ACCEL_SOURCE_DIR")) +
                        "/tests/unit/formats/golden/" + name);
  }
  static std::shared_ptr<Dataset> open(const std::string& path, const std::string& wanted) {
    testing::internal::CaptureStderr();
    std::shared_ptr<Dataset> data;
    const std::string refused = complaint([&] {
      data =
          build<Dataset>("{type: image_folder, path: " + path + ", on_bad_sample: " + wanted + "}");
    });
    testing::internal::GetCapturedStderr();
    if (!refused.empty()) throw DataError(refused);
    return data;
  }

  const std::string whole_ = image("rgb.png");
  const std::string torn_ = image("rgb_420.jpg").substr(0, 400);
};

TEST_F(BadImagesTest, AreLeftOutOfFolders) {
  const TempFolder folder;
  folder.write("set/cat/a.png", whole_);
  folder.write("set/cat/b.jpg", torn_);
  folder.write("set/dog/c.png", "no image");
  folder.write("set/dog/d.png", whole_);
  const auto data = open(folder.path("set"), "skip(2)");
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(left_out(*data), 2);
  EXPECT_EQ(data->name(1), "dog/d.png");
  EXPECT_EQ(target_of(*data, 1), 1);
  EXPECT_EQ(data->sample(1).input.shape(), (Shape{3, 13, 19}));
  EXPECT_EQ(complaint([&] { open(folder.path("set"), "skip(1)"); }),
            "'" + folder.path("set/dog/c.png") +
                "' is neither a JPEG nor a PNG image; 'on_bad_sample' allows 1 sample of '" +
                folder.path("set") +
                "' to be skipped, and this is one more\n"
                "repair the data, or raise the number in 'skip(1)'");
  // The same samples are the same data, whatever else lies there.
  std::filesystem::remove(folder.path("set/cat/b.jpg"));
  EXPECT_EQ(open(folder.path("set"), "skip(1)")->fingerprint(), data->fingerprint());
}

TEST_F(BadImagesTest, AreLeftOutOfArchives) {
  const TempFolder folder;
  folder.write("set.tar", tar_member("cat/a.png", whole_) + tar_member("cat/b.jpg", torn_) +
                              tar_member("dog/c.png", whole_) + tar_end());
  const auto data = open(folder.path("set.tar"), "skip(1)");
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(target_of(*data, 1), 1);
}

TEST_F(BadSamplesTest, AreCountedOverAllParts) {
  const auto data = open("{\n" + kGood + kGood, texts() + "type: jsonl, on_bad_sample: skip(1)");
  EXPECT_EQ(left_out(Concatenation({data, data})), 2);
  EXPECT_EQ(left_out(Mixture({data, select_samples(data, {0})}, {1, 1})), 2);
}

struct GrammarCase {
  const char* written;
  const char* problem;
};

const GrammarCase kGrammar[] = {
    {"stop", ""},
    {"skip(1)", ""},
    {"skip", "not 'skip'"},
    {"skip()", "not 'skip()'"},
    {"skip(0)", "not 'skip(0)'"},
    {"skip(-1)", "not 'skip(-1)'"},
    {"skip(ten)", "not 'skip(ten)'"},
    {"skip(1", "not 'skip(1'"},
    {"10", "not '10'"},
    {"[skip]", "not a list"},
};

TEST_F(BadSamplesTest, TheValueIsStopOrANumber) {
  for (const GrammarCase& test : kGrammar) {
    const std::string reported =
        complaint([&] { open(kGood, texts() + "type: jsonl, on_bad_sample: " + test.written); });
    const std::string wanted =
        "'on_bad_sample' wants 'stop' or a number of samples such as 'skip(10)', ";
    EXPECT_EQ(reported.find(*test.problem ? wanted + test.problem : "") != reported.npos, true)
        << test.written << ": " << reported;
    EXPECT_EQ(reported.empty(), *test.problem == 0) << reported;
  }
}

}  // namespace
}  // namespace accel::skipped_samples_test
