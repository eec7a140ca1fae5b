// Shared objects (ELF, 64 bits, little-endian), read as data: what a file is can be told before any
// of its code runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/formats/bytes.h"

namespace accel {

struct ElfSection {
  std::string name;
  ByteSpan bytes;  ///< into the file; empty for one that takes no space there
};

struct ElfFile {
  uint16_t type = 0;     ///< kElfShared for a shared object
  uint16_t machine = 0;  ///< the processor, by its ELF number
  std::vector<ElfSection> sections;

  /// The first section of this name; null: none.
  const ElfSection* section(std::string_view name) const;
};

constexpr uint16_t kElfShared = 3;

/// Reads the headers, and checks that all that would be loaded is there. Throws FormatError for
/// bytes that are no such file.
ElfFile read_elf(ByteSpan file);

/// "x86-64", "aarch64", or "machine 40".
std::string elf_machine_name(uint16_t machine);

/// The processor that this code was compiled for.
uint16_t elf_machine_here();

}  // namespace accel
