#include "core/base/drafts.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "core/base/files.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::drafts_test {
namespace {

/// The id of a process that has ended.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST(DraftsTest, ThoseOfDeadProcessesAreRemoved) {
  const TempFolder folder;
  const std::string dead = std::to_string(dead_process()), own = std::to_string(::getpid());
  std::filesystem::create_directories(folder.path("metrics/train"));
  for (const std::string& name :
       {"recipe.yaml." + dead + ".new", "metrics/train/loss." + dead + ".new",
        "recipe.yaml." + own + ".new", std::string("recipe.yaml"), std::string("renewed.new"),
        std::string("12.new"), std::string("a.12x.new"), "a." + dead + ".news"}) {
    folder.write(name, "x");
  }
  remove_drafts(folder.path());
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (entry.is_regular_file()) left.insert(entry.path().filename().string());
  }
  const std::set<std::string> wanted = {
      "recipe.yaml." + own + ".new", "recipe.yaml", "renewed.new", "12.new", "a.12x.new",
      "a." + dead + ".news"};
  EXPECT_EQ(left, wanted);
  remove_drafts("/no/such/folder");
}

TEST(DraftsTest, AKilledWriteLeavesOneThatIsRemoved) {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    write_file_atomically(folder.path("table"), [](const ByteSink&) { ::_exit(0); });
    ::_exit(1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const std::string draft = folder.path("table." + std::to_string(child) + ".new");
  EXPECT_TRUE(std::filesystem::exists(draft));
  remove_drafts(folder.path());
  EXPECT_FALSE(std::filesystem::exists(draft));
}

}  // namespace
}  // namespace accel::drafts_test
