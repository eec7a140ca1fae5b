// The manifest's text: exact to the bit, and believed only when its checksum holds.
#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include "checkpoint/stored_layout.h"
#include "formats/checksum.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::manifest_test {
namespace {

/// A text with a right checksum around any body.
std::string sealed(const std::string& body) {
  const std::string rest = "\",\n\"manifest\": " + body + "}\n";
  return "{\"checksum\": \"xxh3:" + hex_text(checksum_of(as_bytes(rest))) + rest;
}

std::string complaint(const std::string& text) {
  try {
    read_manifest(text);
    return "";
  } catch (const FormatError& error) {
    return error.what();
  }
}

TEST(ManifestTest, LooksLikeThis) {
  Manifest manifest;
  manifest.state.progress = {5, 1, 2, 40, 0};
  manifest.state.seed = 42;
  manifest.state.metrics["eval/loss"] = 0.1;
  manifest.state.base_lrs = {1e-3};
  manifest.state.recipe = "model: mlp\n";
  manifest.model = {"w"};
  manifest.files["model.safetensors"] = {96, 0xabc};
  EXPECT_EQ(write_manifest(manifest), R"({"checksum": "xxh3:f944edefde4a3afb",
"manifest": {
 "format": 1,
 "progress": {
  "step": 5,
  "epoch": 1,
  "step_in_epoch": 2,
  "samples": 40,
  "tokens": 0
 },
 "seed": 42,
 "metrics": {
  "eval/loss": 0.1
 },
 "facts": {},
 "base_lrs": [
  0.001
 ],
 "lrs": [],
 "schedule": {
  "numbers": {},
  "texts": {},
  "tensors": []
 },
 "parts": {},
 "model": [
  "w"
 ],
 "tied": {},
 "optimizer": [],
 "files": {
  "model.safetensors": {
   "bytes": 96,
   "xxh3": "0000000000000abc"
  }
 },
 "recipe": "model: mlp\n"
}}
)");
}

TEST(ManifestTest, DoublesComeBackToTheBit) {
  const uint64_t patterns[] = {0x0000000000000000, 0x8000000000000000, 0x0000000000000001,
                               0x7fefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
                               0x7ff8000000000000, 0xfff800000000beef, 0x7ff0000000000001,
                               0x3ff0000000000001, 0x3fb999999999999a, 0x4340000000000001};
  for (const uint64_t pattern : patterns) {
    Manifest manifest;
    manifest.state.lrs = {std::bit_cast<double>(pattern)};
    const Manifest back = read_manifest(write_manifest(manifest));
    EXPECT_EQ(std::bit_cast<uint64_t>(back.state.lrs.at(0)), pattern);
  }
}

TEST(ManifestTest, ASeedOf64BitsComesBack) {
  Manifest manifest;
  manifest.state.seed = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(read_manifest(write_manifest(manifest)).state.seed, manifest.state.seed);
}

TEST(ManifestTest, WhatIsNoManifestIsRefused) {
  EXPECT_EQ(complaint(""), "it does not start with its checksum");
  EXPECT_EQ(complaint("{\"checksum\": \"xxh3:0123"), "it does not start with its checksum");
  EXPECT_EQ(complaint(sealed("{\"format\": 3}")),
            "it has format 3, this accel-run reads formats 1 and 2");
  EXPECT_NE(complaint(sealed("{}")).find("it is not a manifest"), std::string::npos);
  EXPECT_NE(complaint(sealed("[1")).find("it is not a manifest"), std::string::npos);
}

TEST(ManifestTest, AChangedContentIsTold) {
  std::string text = write_manifest({});
  text[text.size() - 3] = ' ';
  EXPECT_NE(complaint(text).find("its content has checksum "), std::string::npos);
}

TEST(ManifestTest, FileNamesThatLeaveTheFolderAreRefused) {
  for (const std::string name : {"../x", "/etc/passwd", ".hidden", "", "a/b/c", "a/../b", "a/.b",
                                 "a/", "./.metadata", ".metadata"}) {
    Manifest manifest;
    manifest.files[name] = {1, 2};
    EXPECT_EQ(complaint(write_manifest(manifest)),
              "'" + name + "' is not a file name of a checkpoint");
  }
}

TEST(ManifestTest, ALayoutWithoutPartsIsRefused) {
  Manifest manifest;
  StoredLayout layout;
  layout.names = {"x"};
  layout.tensors = {{.name = "x", .shape = {1}, .parts = {}}};
  manifest.state.layout = std::make_shared<StoredLayout>(layout);
  EXPECT_NE(complaint(write_manifest(manifest)).find("the layout of 'x' is invalid"),
            std::string::npos);
}

TEST(ManifestTest, AChecksumThatIsNoNumberIsRefused) {
  Manifest manifest;
  manifest.files["a"] = {1, 2};
  std::string body = write_manifest(manifest);
  body = body.substr(body.find("\"manifest\": ") + 12);
  body.resize(body.size() - 2);
  for (const char* digits : {"\"xxh3\": \"zz", "\"xxh3\": \"ffffffffffffffffffffff"}) {
    std::string wrong = body;
    wrong.replace(wrong.find("\"xxh3\": \""), 9, digits);
    EXPECT_NE(complaint(sealed(wrong)), "");
  }
}

}  // namespace
}  // namespace accel::manifest_test
