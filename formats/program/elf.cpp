#include "formats/program/elf.h"

#include "core/base/text.h"

namespace accel {
namespace {

constexpr std::string_view kMagic = "\177ELF";
constexpr size_t kHeaderBytes = 64;
constexpr size_t kProgramHeaderBytes = 56;
constexpr size_t kSectionHeaderBytes = 64;
constexpr uint32_t kLoadedSegment = 1;
constexpr uint32_t kNoBits = 8;
constexpr uint16_t kX86_64 = 62, kAarch64 = 183;

/// `size` bytes at `offset`.
ByteSpan range_of(ByteSpan file, uint64_t offset, uint64_t size, const std::string& what) {
  if (offset > file.size() || size > file.size() - offset) {
    throw FormatError(text("it ends before its {}", what));
  }
  return file.subspan(offset, size);
}

struct Header {
  uint16_t type, machine;
  uint64_t programs, sections;
  uint16_t program_bytes, program_count, section_bytes, section_count, names_index;
};

Header read_header(ByteSpan file) {
  if (!as_text(file).starts_with(kMagic)) throw FormatError("it is not an ELF file");
  ByteReader reader(range_of(file, 0, kHeaderBytes, "header"), "the ELF header");
  reader.take(kMagic.size());
  const auto bits = reader.little<uint8_t>(), order = reader.little<uint8_t>();
  if (bits != 2 || order != 1) throw FormatError("it is not 64-bit little-endian");
  reader.take(10);
  Header header{};
  header.type = reader.little<uint16_t>();
  header.machine = reader.little<uint16_t>();
  reader.take(4 + 8);
  header.programs = reader.little<uint64_t>();
  header.sections = reader.little<uint64_t>();
  reader.take(4 + 2);
  header.program_bytes = reader.little<uint16_t>();
  header.program_count = reader.little<uint16_t>();
  header.section_bytes = reader.little<uint16_t>();
  header.section_count = reader.little<uint16_t>();
  header.names_index = reader.little<uint16_t>();
  return header;
}

void check_segments(ByteSpan file, const Header& header) {
  if (header.program_count == 0) return;
  if (header.program_bytes != kProgramHeaderBytes) {
    throw FormatError("its segment headers have an unexpected size");
  }
  ByteReader table(range_of(file, header.programs,
                            uint64_t{header.program_bytes} * header.program_count, "segment table"),
                   "the segment table");
  for (uint16_t i = 0; i < header.program_count; ++i) {
    ByteReader entry(table.take(kProgramHeaderBytes), "a segment's header");
    const auto type = entry.little<uint32_t>();
    entry.take(4);
    const auto offset = entry.little<uint64_t>();
    entry.take(16);
    const auto size = entry.little<uint64_t>();
    if (type == kLoadedSegment) range_of(file, offset, size, "code and data");
  }
}

struct SectionHeader {
  uint32_t name = 0;
  uint32_t type = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

std::vector<SectionHeader> section_headers(ByteSpan file, const Header& header) {
  std::vector<SectionHeader> out;
  if (header.section_count == 0) return out;
  if (header.section_bytes != kSectionHeaderBytes) {
    throw FormatError("its section headers have an unexpected size");
  }
  ByteReader table(range_of(file, header.sections,
                            uint64_t{header.section_bytes} * header.section_count, "section table"),
                   "the section table");
  for (uint16_t i = 0; i < header.section_count; ++i) {
    ByteReader entry(table.take(kSectionHeaderBytes), "a section's header");
    SectionHeader section;
    section.name = entry.little<uint32_t>();
    section.type = entry.little<uint32_t>();
    entry.take(16);
    section.offset = entry.little<uint64_t>();
    section.size = entry.little<uint64_t>();
    out.push_back(section);
  }
  return out;
}

ByteSpan bytes_of(ByteSpan file, const SectionHeader& section) {
  if (section.type == kNoBits || section.type == 0) return {};
  return range_of(file, section.offset, section.size, "sections");
}

std::string name_at(std::string_view names, uint32_t at) {
  if (at >= names.size()) throw FormatError("a section's name is outside the name table");
  const size_t end = names.find('\0', at);
  if (end == names.npos) throw FormatError("a section's name has no end");
  return std::string(names.substr(at, end - at));
}

}  // namespace

const ElfSection* ElfFile::section(std::string_view name) const {
  for (const ElfSection& section : sections) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

ElfFile read_elf(ByteSpan file) {
  const Header header = read_header(file);
  ElfFile out{header.type, header.machine, {}};
  check_segments(file, header);
  const std::vector<SectionHeader> headers = section_headers(file, header);
  if (headers.empty()) return out;
  if (header.names_index >= headers.size()) throw FormatError("its sections have no names");
  const std::string_view names = as_text(bytes_of(file, headers[header.names_index]));
  // Names may overlap: bounds the bytes copied from a small file.
  constexpr size_t kLongestName = 256;
  for (const SectionHeader& section : headers) {
    if (section.type == 0) continue;
    std::string name = name_at(names, section.name);
    if (name.size() > kLongestName) throw FormatError("a section's name is too long");
    out.sections.push_back({std::move(name), bytes_of(file, section)});
  }
  return out;
}

std::string elf_machine_name(uint16_t machine) {
  switch (machine) {
    case kX86_64:
      return "x86-64";
    case kAarch64:
      return "aarch64";
    default:
      return text("machine {}", machine);
  }
}

uint16_t elf_machine_here() {
#if defined(__x86_64__)
  return kX86_64;
#elif defined(__aarch64__)
  return kAarch64;
#else
  return 0;
#endif
}

}  // namespace accel
