#include "core/recipe/catalog_text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/unit/core/catalog_sample.h"

namespace accel::catalog_text_test {
namespace {

/// The message and the hint of the Error that `act` throws.
template <class Act>
std::string complaint_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    return std::string(error.what()) + " / " + error.hint();
  }
  return "nothing was thrown";
}

TEST(ListTextTest, NamesAndSummariesOfAKindAreAligned) {
  EXPECT_EQ(list_text(sample_registry(), "tracker"),
            "tracker\n"
            "  null     Forgets everything.\n"
            "  printer  Prints pages of numbers.\n");
}

TEST(ListTextTest, EveryKindIsListedWhenNoneIsAskedFor) {
  const std::string all = list_text(sample_registry(), "");
  const Registry registry = sample_registry();
  for (const CatalogIndex* catalog : registry.all()) {
    EXPECT_NE(("\n" + all).find('\n' + catalog->kind() + '\n'), std::string::npos)
        << catalog->kind();
  }
  EXPECT_NE(all.find("model\n  none\n\n"), std::string::npos);
}

TEST(ListTextTest, UnknownKindNamesTheNearest) {
  EXPECT_EQ(complaint_of([] { list_text(sample_registry(), "modle"); }),
            "there is no kind of component named 'modle' / did you mean 'model'?");
  EXPECT_EQ(complaint_of([] { list_text(sample_registry(), "zzzzzzzzzz"); }),
            "there is no kind of component named 'zzzzzzzzzz' / there are model, task, dataset, "
            "transform, optimizer, scheduler, metric, callback, tracker, reward");
}

TEST(ExplainTextTest, TellsEveryOptionWithTypeRuleAndDefault) {
  const Registry registry = sample_registry();
  EXPECT_EQ(explain_text(catalog_of(registry, "tracker"), "printer"),
            "tracker printer\n"
            "  Prints pages of numbers.\n"
            "\n"
            "options:\n"
            "  path: a path; required\n"
            "      Where to write, below runs/<name>.\n"
            "  rows: a whole number; at least 1; default 10\n"
            "      Lines in a page.\n"
            "  limit: a number or 'none'; default none\n"
            "      Stop at a*b of `a|b`.\n"
            "  columns: a whole number or 'auto'; default auto\n"
            "      Columns in a page.\n"
            "  sizes: a list; default [3, 4]\n"
            "      Sizes of pages.\n"
            "  style: a section\n"
            "      How it looks.\n"
            "      color: a text; one of blue, red; default 'blue'\n"
            "          Of the line.\n"
            "      width: a number; more than 0; default 1.5\n"
            "          In points.\n");
}

TEST(ExplainTextTest, ComponentWithoutOptionsSaysSo) {
  const Registry registry = sample_registry();
  EXPECT_EQ(explain_text(catalog_of(registry, "tracker"), "null"),
            "tracker null\n  Forgets everything.\n\nIt has no options.\n");
}

TEST(ExplainTextTest, DeprecatedNamesAreListed) {
  Registry registry;
  FieldInfo size{"hidden_size", "a whole number", "8", "Features.", "at least 1", ""};
  size.renamed_from = "width";
  FieldInfo path{"path", "a path", "", "Where to write.", "", ""};
  path.required = true;
  path.renamed_from = "file";
  ComponentInfo ink{"ink", "Draws lines.", {size, path}};
  ink.renamed_from = "quill";
  registry.of<Tracker>().add(ink, {});
  EXPECT_EQ(explain_text(registry.of<Tracker>(), "ink"),
            "tracker ink\n"
            "  Draws lines.\n"
            "  deprecated name: quill\n"
            "\n"
            "options:\n"
            "  hidden_size: a whole number; at least 1; default 8; deprecated name: width\n"
            "      Features.\n"
            "  path: a path; required; deprecated name: file\n"
            "      Where to write.\n");
  EXPECT_EQ(complaint_of([&] { explain_text(registry.of<Tracker>(), "quill"); }),
            "the tracker 'quill' is called 'ink' now / write 'ink'");
}

TEST(ExplainTextTest, UnknownNameNamesTheNearest) {
  const Registry registry = sample_registry();
  EXPECT_EQ(complaint_of([&] { explain_text(catalog_of(registry, "tracker"), "printr"); }),
            "no tracker is named 'printr' / did you mean 'printer'?");
}

std::string explained(const std::string& word) {
  return explain_word(word, SampleRecipe::schema().info(), sample_registry());
}

TEST(ExplainWordTest, KeysOfRecipesHaveTypeMeaningAndEffectOnAResume) {
  EXPECT_EQ(explained("data.shuffle"),
            "data.shuffle\n"
            "  true or false; default true\n"
            "  A new order each epoch.\n"
            "  On resume: a change needs --allow.\n");
  EXPECT_EQ(explained("tracker.rows"),
            "tracker.rows\n"
            "  a whole number; at least 1; default 10\n"
            "  Lines in a page.\n"
            "  On resume: may change.\n"
            "  Of printer\n");
  EXPECT_EQ(explained("printer.columns"),
            "printer.columns\n"
            "  a whole number or 'auto'; default auto\n"
            "  Columns in a page.\n"
            "  On resume: cannot change.\n"
            "  Of tracker printer\n");
  EXPECT_EQ(explained("printer.style.width").substr(0, 20), "printer.style.width\n");
  EXPECT_EQ(explained("vars.any.thing").substr(0, 5), "vars\n") << "its keys are free";
}

TEST(ExplainWordTest, SectionsListWhatIsInThem) {
  EXPECT_NE(explained("data").find("\noptions:\n  train: "), std::string::npos)
      << explained("data");
  EXPECT_NE(explained("tracker").find("\ntracker\n  null     Forgets everything.\n"),
            std::string::npos)
      << explained("tracker");
  EXPECT_TRUE(explained("tracker").ends_with(
      "\n'accel-run explain tracker NAME' lists the options of one\n"));
}

TEST(ExplainWordTest, ComponentsNeedNoKind) {
  const Registry registry = sample_registry();
  EXPECT_EQ(explained("printer"), explain_text(catalog_of(registry, "tracker"), "printer"));
  EXPECT_EQ(explained("dataset"), list_text(registry, "dataset"));
}

TEST(ExplainWordTest, TheNearestKeyIsNamed) {
  const auto complaint = [](const std::string& word) {
    return complaint_of([&] { explained(word); });
  };
  EXPECT_EQ(complaint("data.shufle"),
            "no recipe key or component is named 'data.shufle' / did you mean 'data.shuffle'?");
  EXPECT_EQ(complaint("shuffle"),
            "no recipe key or component is named 'shuffle' / did you mean 'data.shuffle'?");
  EXPECT_EQ(complaint("train.rows"),
            "no recipe key or component is named 'train.rows' / did you mean 'tracker.rows'?");
  EXPECT_EQ(complaint("acuracy"),
            "no recipe key or component is named 'acuracy' / did you mean 'accuracy'?");
  EXPECT_EQ(complaint("zzzzzzzz"),
            "no recipe key or component is named 'zzzzzzzz' / 'accel-run list' shows the "
            "components, 'accel-run show RECIPE' the keys");
}

TEST(ExplainTextTest, NoLineIsWiderThanATerminal) {
  Registry registry;
  std::string long_summary;
  for (int i = 0; i < 60; ++i) long_summary += "words of different length ";
  FieldInfo field{"option", "a text", "''", long_summary, "", ""};
  registry.of<Tracker>().add({"wordy", long_summary, {field}}, {});
  std::istringstream lines(list_text(registry, "tracker") +
                           explain_text(registry.of<Tracker>(), "wordy"));
  std::string line;
  while (std::getline(lines, line)) {
    EXPECT_LE(line.size(), 100u);
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

}  // namespace
}  // namespace accel::catalog_text_test
