#include "runner/startup/torch_folder.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel {
namespace {

const EnvironmentLookup kNoVariables = [](const std::string&) { return std::nullopt; };

/// A Python package torch in `packages` of `root`.
std::string put_torch(const TempFolder& root, const std::string& packages,
                      const std::string& version) {
  root.write(packages + "/torch/version.py",
             "from typing import Optional\n__version__ = '" + version + "'\ndebug = False\n");
  root.write(packages + "/torch/lib/libtorch_cpu.so", "");
  return root.path(packages + "/torch/lib");
}

std::optional<std::string> found_in(const TempFolder& root) {
  return find_torch_folder(root.path("env"), "2.11.0", kNoVariables);
}

TEST(TorchFolderTest, AnInstallationHasItsOwn) {
  const TempFolder root;
  put_torch(root, "env/lib/python3.11/site-packages", "2.11.0");
  EXPECT_NE(found_in(root), root.path("env/lib/accel-run"));
  root.write("env/lib/accel-run/libgomp.so.1", "");
  EXPECT_NE(found_in(root), root.path("env/lib/accel-run"));
  root.write("env/lib/accel-run/libtorch_cpu.so", "");
  EXPECT_EQ(found_in(root), root.path("env/lib/accel-run"));
}

TEST(TorchFolderTest, ThePackageIsFoundWherePipPutsIt) {
  for (const char* packages :
       {"env/lib/python3.11/site-packages", "env/lib64/python3.9/site-packages",
        "env/local/lib/python3.12/dist-packages", "env/lib/python3/dist-packages", "env"}) {
    const TempFolder root;
    EXPECT_EQ(found_in(root), std::nullopt);
    const std::string folder = put_torch(root, packages, "2.11.1+cu130");
    EXPECT_EQ(found_in(root), folder);
  }
}

TEST(TorchFolderTest, TheVersionDecidesBetweenTwoPythons) {
  const TempFolder root;
  put_torch(root, "env/lib/python3.10/site-packages", "2.1.0");
  const std::string folder = put_torch(root, "env/lib/python3.11/site-packages", "2.11.0+cpu");
  put_torch(root, "env/lib/python3.12/site-packages", "2.12.0");
  EXPECT_EQ(found_in(root), folder);
}

/// The error and the hint about a package of this version; its folder is DIR.
std::string refusal_of(const std::string& version) {
  const TempFolder root;
  const std::string folder = put_torch(root, "env/lib/python3.11/site-packages", version);
  try {
    return found_in(root).value_or("none");
  } catch (const Error& error) {
    std::string message = error.what();
    const size_t at = message.find(folder);
    if (at != message.npos) message.replace(at, folder.size(), "DIR");
    return message + " | " + error.hint();
  }
}

TEST(TorchFolderTest, AnotherVersionIsRefused) {
  EXPECT_EQ(refusal_of("2.12.0+cu130"),
            "libtorch in 'DIR' is version 2.12.0+cu130; this accel-run needs 2.11 | "
            "install it: pip install 'torch==2.11.*'");
  EXPECT_NE(refusal_of("2.1.1").find("is version 2.1.1;"), std::string::npos);
  EXPECT_NE(refusal_of("").find("is version unknown;"), std::string::npos);
}

TEST(TorchFolderTest, AVirtualEnvironmentIncludesThePackagesItIsSetTo) {
  const TempFolder root;
  const EnvironmentLookup home = [&](const std::string& name) {
    return name == "HOME" ? std::optional<std::string>(root.path("home")) : std::nullopt;
  };
  const auto found = [&] { return find_torch_folder(root.path("env"), "2.11.0", home); };
  const std::string base = put_torch(root, "usr/local/lib/python3.11/dist-packages", "2.11.0");
  const std::string settings = "home = " + root.path("usr/bin") + "\nversion = 3.11.2\n";
  root.write("env/pyvenv.cfg", settings + "include-system-site-packages = false\n");
  EXPECT_EQ(found(), std::nullopt);
  root.write("env/pyvenv.cfg", settings + "include-system-site-packages = true\n");
  EXPECT_EQ(found(), base);
  const std::string users = put_torch(root, "home/.local/lib/python3.11/site-packages", "2.11.0");
  EXPECT_EQ(found(), users);
  const std::string own = put_torch(root, "env/lib/python3.11/site-packages", "2.11.0");
  EXPECT_EQ(found(), own);
}

}  // namespace
}  // namespace accel
