#include "formats/program/elf.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace accel::elf_test {
namespace {

struct Segment {
  uint64_t offset;
  uint64_t size;
};

/// A shared object of one segment and three sections: none, ".hello" and the names.
std::string small_elf(Segment segment = {0, 64}) {
  const std::string names = std::string("\0.hello\0.names\0", 15);
  std::string out = "\177ELF";
  out += std::string("\2\1\1\0\0\0\0\0\0\0\0\0", 12);
  const uint64_t data = 64 + 56, table = data + 5 + names.size();
  put_little<uint16_t>(out, kElfShared);
  put_little<uint16_t>(out, elf_machine_here());
  put_little<uint32_t>(out, 1);
  put_little<uint64_t>(out, 0);
  put_little<uint64_t>(out, 64);
  put_little<uint64_t>(out, table);
  put_little<uint32_t>(out, 0);
  for (const uint16_t number : {64, 56, 1, 64, 3, 2}) put_little<uint16_t>(out, number);
  put_little<uint32_t>(out, 1);
  put_little<uint32_t>(out, 5);
  for (const uint64_t number :
       {segment.offset, uint64_t{0}, uint64_t{0}, segment.size, segment.size, uint64_t{4096}}) {
    put_little<uint64_t>(out, number);
  }
  out += "12345" + names;
  const auto section = [&](uint32_t name, uint32_t type, uint64_t offset, uint64_t size) {
    put_little<uint32_t>(out, name);
    put_little<uint32_t>(out, type);
    for (const uint64_t number :
         {uint64_t{0}, uint64_t{0}, offset, size, uint64_t{0}, uint64_t{1}, uint64_t{0}}) {
      put_little<uint64_t>(out, number);
    }
  };
  section(0, 0, 0, 0);
  section(1, 1, data, 5);
  section(8, 3, data + 5, names.size());
  return out;
}

std::string complaint(const std::string& file) {
  try {
    read_elf(as_bytes(file));
  } catch (const FormatError& error) {
    return error.what();
  }
  return "none";
}

TEST(ElfTest, SectionsAreFoundByName) {
  const std::string bytes = small_elf();
  const ElfFile file = read_elf(as_bytes(bytes));
  EXPECT_EQ(file.type, kElfShared);
  EXPECT_EQ(file.machine, elf_machine_here());
  ASSERT_NE(file.section(".hello"), nullptr);
  EXPECT_EQ(as_text(file.section(".hello")->bytes), "12345");
  EXPECT_EQ(file.section(".other"), nullptr);
}

TEST(ElfTest, OtherFilesAreRefused) {
  const auto with = [](size_t at, char byte) {
    std::string file = small_elf();
    file[at] = byte;
    return file;
  };
  const struct {
    std::string file;
    const char* message;
  } cases[] = {
      {"", "it is not an ELF file"},
      {"#!/bin/sh\n", "it is not an ELF file"},
      {"\177ELF", "it ends before its header"},
      {with(4, 1), "it is not 64-bit little-endian"},
      {with(5, 2), "it is not 64-bit little-endian"},
      {with(54, 57), "its segment headers have an unexpected size"},
      {with(58, 63), "its section headers have an unexpected size"},
      {with(62, 3), "its sections have no names"},
      {with(57, 127), "it ends before its segment table"},
      {small_elf().substr(0, 300), "it ends before its section table"},
      {small_elf({64, 100'000}), "it ends before its code and data"},
      {small_elf({uint64_t{1} << 63, uint64_t{1} << 63}), "it ends before its code and data"},
      {with(small_elf().size() - 128, 99), "a section's name is outside the name table"},
  };
  for (const auto& [file, message] : cases) EXPECT_EQ(complaint(file), message);
}

TEST(ElfTest, AFileCutAnywhereIsRefusedOrRead) {
  const std::string file = small_elf();
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(complaint(file.substr(0, size)), "none") << size;
  }
}

TEST(ElfTest, ProcessorsAreNamed) {
  EXPECT_EQ(elf_machine_name(62), "x86-64");
  EXPECT_EQ(elf_machine_name(183), "aarch64");
  EXPECT_EQ(elf_machine_name(40), "machine 40");
}

}  // namespace
}  // namespace accel::elf_test
