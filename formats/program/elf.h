// Reader of shared objects (ELF, 64-bit, little-endian), to check them before any code is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/bytes.h"

namespace accel {

struct ElfSection {
  std::string name;
  ByteSpan bytes;  ///< into the file; empty for a section without file data
};

struct ElfFile {
  uint16_t type = 0;     ///< kElfShared for a shared object
  uint16_t machine = 0;  ///< e_machine
  std::vector<ElfSection> sections;

  /// The first section of this name, or null.
  const ElfSection* section(std::string_view name) const;
};

constexpr uint16_t kElfShared = 3;

/// Reads the headers and checks that all loadable segments are in the file. Throws FormatError for
/// other and damaged files.
ElfFile read_elf(ByteSpan file);

/// "x86-64", "aarch64", or "machine 40".
std::string elf_machine_name(uint16_t machine);

/// The machine of this build.
uint16_t elf_machine_here();

}  // namespace accel
