#include "formats/archive/tar.h"

#include <cstdio>

#include <gtest/gtest.h>

#include "tests/unit/formats/tar_writer.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::tar_test {
namespace {

std::string tar_complaint(const std::string& archive) {
  return complaint([&] { index_tar(bytes_of(archive), "a.tar"); });
}

std::string listing(const std::string& archive) {
  std::string out;
  for (const TarMember& member : index_tar(bytes_of(archive), "a.tar")) {
    out += member.name + "=" + archive.substr(member.offset, member.size) + "\n";
  }
  return out;
}

TEST(TarTest, RegularFilesAreListedWithTheirContent) {
  const std::string archive = tar_member("folder/", "", {.type = '5'}) +
                              tar_member("./folder/a.txt", "hello") +
                              tar_member("link", "", {.type = '2'}) + tar_member("empty", "") +
                              tar_member("b.bin", std::string(600, 'b')) + tar_end();
  EXPECT_EQ(listing(archive), "folder/a.txt=hello\nempty=\nb.bin=" + std::string(600, 'b') + "\n");
}

TEST(TarTest, LongNamesOfEveryKindAreRead) {
  const std::string name = std::string(150, 'n').append("/file");
  EXPECT_EQ(listing(tar_member("file", "x", {.prefix = "deep/folder"})), "deep/folder/file=x\n");
  EXPECT_EQ(listing(tar_member("././@LongLink", name + '\0', {.type = 'L'}) +
                    tar_member("cut", "x") + tar_member("next", "y")),
            name + "=x\nnext=y\n");
  EXPECT_EQ(listing(tar_member("pax", "165 path=" + name + "\n", {.type = 'x'}) +
                    tar_member("cut", "x") + tar_member("next", "y")),
            name + "=x\nnext=y\n");
  EXPECT_EQ(listing(tar_member("global", "20 comment=nothing!\n", {.type = 'g'}) +
                    tar_member("next", "y")),
            "next=y\n");
}

TEST(TarTest, SizesInBase256AndInPaxRecordsCount) {
  std::string member = tar_member("a", "hello");
  member.replace(124, 12, "\x80" + std::string(10, '\0') + "\x05");
  EXPECT_EQ(listing(with_checksum(member)), "a=hello\n");
  std::string by_pax = tar_member("a", "hello");
  by_pax.replace(124, 11, "00000000000");
  EXPECT_EQ(listing(tar_member("pax", "9 size=5\n", {.type = 'x'}) + with_checksum(by_pax)),
            "a=hello\n");
}

TEST(TarTest, DamageIsRefused) {
  std::string archive = tar_member("a", "hello") + tar_member("b", "world") + tar_end();
  std::string flipped = archive;
  flipped[1024] ^= 1;
  EXPECT_EQ(tar_complaint(flipped),
            "'a.tar': the member at byte 1024 has a damaged header: its checksum does not match");
  EXPECT_EQ(tar_complaint(archive.substr(0, 515)),
            "'a.tar': the member at byte 0 claims 5 bytes, but only 3 follow");
  EXPECT_EQ(tar_complaint(archive.substr(0, 1100)),
            "'a.tar': the member at byte 1024 is truncated");
  std::string greedy = tar_member("a", "hello");
  greedy.replace(124, 12, "\x80" + std::string(3, '\0') + "\x7f" + std::string(7, '\xff'));
  EXPECT_EQ(tar_complaint(with_checksum(greedy)),
            "'a.tar': the member at byte 0 claims 9223372036854775807 bytes, but only 512 follow");
  greedy.replace(124, 12, std::string(12, '\xff'));
  EXPECT_EQ(tar_complaint(with_checksum(greedy)),
            "'a.tar': the member at byte 0 has a number beyond 63 bits");
  greedy.replace(124, 12, "00000000009 ");
  EXPECT_EQ(tar_complaint(with_checksum(greedy)),
            "'a.tar': the member at byte 0 has a number that is not octal");
}

TEST(TarTest, WhatCannotBeReachedIsRefused) {
  EXPECT_EQ(tar_complaint(gzip_of("x")),
            "'a.tar' is compressed, which does not allow random access\n"
            "decompress it once: gunzip keeps the .tar");
  EXPECT_EQ(tar_complaint(tar_member("a", "x", {.type = 'S'})),
            "'a.tar': the member at byte 0 is a sparse file, which is not supported");
  for (const char* record : {"5 path\n", "99 path=a\n", "9 path=abc", "x", "11 size=-5\n"}) {
    EXPECT_NE(tar_complaint(tar_member("pax", record, {.type = 'x'})).find("damaged pax records"),
              std::string::npos)
        << record;
  }
}

TEST(TarTest, AnEmptyArchiveHasNoMembers) {
  EXPECT_EQ(listing(tar_end()), "");
  EXPECT_EQ(listing(""), "");
}

}  // namespace
}  // namespace accel::tar_test
