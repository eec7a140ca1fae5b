#include "core/base/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "core/base/environment.h"

namespace accel::terminal_test {
namespace {

/// Sets environment variables, and restores them at its end.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& values) {
    for (const char* name :
         {"NO_COLOR", "CLICOLOR_FORCE", "LC_ALL", "LC_CTYPE", "LANG", "COLUMNS", kColorVariable}) {
      before_[name] = environment_variable(name);
      ::unsetenv(name);
    }
    for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : before_) {
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    }
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

bool colored_with(const std::map<std::string, std::string>& values) {
  const Variables variables(values);
  testing::internal::CaptureStderr();  // a file
  const bool colored = is_colored(STDERR_FILENO);
  testing::internal::GetCapturedStderr();
  return colored;
}

TEST(TerminalTest, AFileHasColorsOnlyWhereTheyAreForced) {
  EXPECT_FALSE(colored_with({}));
  EXPECT_TRUE(colored_with({{"CLICOLOR_FORCE", "1"}}));
  EXPECT_FALSE(colored_with({{"CLICOLOR_FORCE", "0"}}));
  EXPECT_FALSE(colored_with({{"CLICOLOR_FORCE", "1"}, {"NO_COLOR", "1"}}));
  EXPECT_TRUE(colored_with({{"CLICOLOR_FORCE", "1"}, {"NO_COLOR", ""}}));
  EXPECT_TRUE(colored_with({{kColorVariable, "1"}}));
}

TEST(TerminalTest, AChoiceIsAboveTheEnvironment) {
  choose_color(ColorChoice::kAlways);
  EXPECT_TRUE(colored_with({{"NO_COLOR", "1"}}));
  choose_color(ColorChoice::kNever);
  EXPECT_FALSE(colored_with({{"CLICOLOR_FORCE", "1"}}));
  choose_color(ColorChoice::kAuto);
}

TEST(TerminalTest, AReportHasColoredTagsHintsAndCarets) {
  EXPECT_EQ(colored_report("r.yaml:3:3: error: unknown option 'error: x'\n"
                           "    hiden: [64]\n"
                           "    ^\n"
                           "  hint: did you mean 'hidden'?\n"
                           "warning: few samples\n"),
            "\033[1mr.yaml:3:3: \033[0m\033[1;31merror:\033[0m unknown option 'error: x'\n"
            "    hiden: [64]\n"
            "\033[1;32m    ^\033[0m\n"
            "\033[36m  hint:\033[0m did you mean 'hidden'?\n"
            "\033[1;33mwarning:\033[0m few samples\n");
}

TEST(TerminalTest, WordsInsideAMessageAreNoTags) {
  for (const char* line : {"the rank said: 'x: error: y'", "  its last: error: z", "an error: w"}) {
    EXPECT_EQ(colored_report(line), line);
  }
}

TEST(TerminalTest, TheFirstSetVariableOfTheLocaleDecidesOnUnicode) {
  const auto unicode = [](const std::map<std::string, std::string>& values) {
    const Variables variables(values);
    return has_unicode();
  };
  EXPECT_FALSE(unicode({}));
  EXPECT_TRUE(unicode({{"LANG", "en_US.UTF-8"}}));
  EXPECT_TRUE(unicode({{"LANG", "C"}, {"LC_CTYPE", "C.utf8"}}));
  EXPECT_FALSE(unicode({{"LANG", "en_US.UTF-8"}, {"LC_ALL", "C"}}));
  EXPECT_FALSE(unicode({{"LANG", "de_DE.ISO-8859-1"}}));
}

TEST(TerminalTest, AFileIsAsWideAsColumnsSays) {
  const std::map<std::string, std::string> values = {{"COLUMNS", "123"}};
  const Variables variables(values);
  testing::internal::CaptureStderr();
  const TerminalSize size = terminal_size(STDERR_FILENO);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(size.columns, 123);
  EXPECT_EQ(size.rows, 24);
}

TEST(TerminalTest, WideCharactersAreNotCutInTheMiddle) {
  EXPECT_EQ(columns_of("a日b"), 4);
  EXPECT_EQ(cut_to_columns("a日b", 2), "a");
  EXPECT_EQ(cut_to_columns("a日b", 3), "a日");
  EXPECT_EQ(cut_to_columns("a日b", 4), "a日b");
}

}  // namespace
}  // namespace accel::terminal_test
