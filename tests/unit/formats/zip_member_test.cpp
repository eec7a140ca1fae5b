// Single entries of zip archives as other tools make them.
#include "runner/formats/zip_member.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/formats/zip_archive.h"

namespace accel {
namespace {

constexpr size_t kCap = 1000;

std::string fault(const std::string& archive, const std::string& name = "a/b.tsv",
                  size_t cap = kCap) {
  try {
    unzip_member(as_bytes(archive), name, cap);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

std::string content(const std::string& archive, const std::string& name) {
  return std::string(as_text(unzip_member(as_bytes(archive), name, kCap).view));
}

TEST(ZipMember, DeflatedAndStoredEntriesAreRead) {
  const std::string long_text(900, 'x');
  for (const bool deflated : {true, false}) {
    for (const std::string comment : {"", "made by hand"}) {
      const std::string archive =
          zip_archive({{"a/", ""}, {"a/b.tsv", long_text}, {"c", "short"}}, deflated);
      const std::string ended = with_zip_comment(archive, comment);
      EXPECT_EQ(content(ended, "a/b.tsv"), long_text);
      EXPECT_EQ(content(ended, "c"), "short");
      EXPECT_EQ(content(ended, "a/"), "");
    }
  }
}

TEST(ZipMember, WhatIsNotThereOrTooLargeIsTold) {
  const std::string archive = zip_archive({{"a/b.tsv", "12345"}}, true);
  EXPECT_EQ(fault(archive, "b.tsv"), "the zip archive has no 'b.tsv'");
  EXPECT_EQ(fault(archive, "a/b.tsv", 4),
            "the zip entry 'a/b.tsv' claims 5 bytes, at most 4 are read");
  EXPECT_EQ(fault(archive, "a/b.tsv", 5), "");
}

TEST(ZipMember, DamageIsTold) {
  const std::string archive = zip_archive({{"a/b.tsv", "some text of a file"}}, false);
  const std::string what = "the zip entry 'a/b.tsv'";
  const size_t data = archive.find("some"), listing = archive.find("PK\1\2");
  const auto changed = [&](size_t at, char value) {
    std::string out = archive;
    out[at] = value;
    return out;
  };
  const std::string damaged = what + " is damaged: its content is not what its CRC-32 says";
  EXPECT_EQ(fault(changed(data, 'S')), damaged);
  EXPECT_EQ(fault(changed(listing + 8, 1)), what + " is encrypted");
  EXPECT_EQ(fault(changed(listing + 10, 9)),
            what + " is packed by method 9, not stored or deflated");
  EXPECT_EQ(fault(changed(listing + 24, 18)), what + " cannot have the size it claims");
  EXPECT_EQ(fault(changed(listing + 10, 8)), damaged);
  EXPECT_EQ(fault(changed(listing + 44, 1)), what + " is outside the file");
  EXPECT_EQ(fault(changed(listing, 'Q')), "the zip directory is damaged");
  EXPECT_EQ(fault(changed(0, 'Q')), what + " has no local header");
  EXPECT_EQ(fault(changed(archive.size() - 6 + 2, 1)),
            "the zip directory does not end where the end record begins");
  EXPECT_EQ(fault(""), "no zip archive: the end record is missing");
  EXPECT_EQ(fault(archive.substr(0, archive.size() - 1)),
            "no zip archive: the end record is missing");
}

TEST(ZipMember, EveryCutIsRefused) {
  const std::string archive = zip_archive({{"a/b.tsv", std::string(200, 'y')}}, true);
  for (size_t bytes = 0; bytes < archive.size(); ++bytes) {
    EXPECT_NE(fault(archive.substr(0, bytes)), "") << bytes;
  }
}

}  // namespace
}  // namespace accel
