// An archive of a compiled model, y = x * w with a buffer that counts, for tests to damage. Its
// code is the header of a shared object and nothing else.
#pragma once

#include <string>

#include "core/base/build_info.h"
#include "formats/archive/zip.h"
#include "formats/program/elf.h"
#include "formats/tensors/safetensors.h"

namespace accel {

struct CompiledArchive {
  std::string format = "1";
  std::string torch = std::string(build_info().torch);
  std::string cpu = "";
  std::string inputs = R"({"name":"x","dtype":"F32","sizes":[[1,null],[2,2]]})";
  std::string tensors = R"({"name":"w","kind":"parameter","saved":true,"trained":true},)"
                        R"({"name":"tied","kind":"parameter","saved":true,"trained":true,)"
                        R"("same_as":"w"},)"
                        R"({"name":"n","kind":"buffer","saved":true,"trained":false})";
  std::string forward =
      R"({"inputs":[["tensor","w"],["tensor","tied"],["tensor","n"],["input",0]],)"
      R"("outputs":[["buffer","n"],["output"],["saved",0]]})";
  std::string backward = R"({"inputs":[["tensor","w"],["input",0],["saved",0],["gradient"]],)"
                         R"("outputs":[["tensor","w"]]})";
  std::string evaluate = R"({"inputs":[["tensor","w"],["input",0]],"outputs":[["output"]]})";
  uint16_t type = kElfShared;
  uint16_t machine = elf_machine_here();
  bool has_code = true;

  std::string table() const {
    std::string out = R"({"format":)";
    out.append(format).append(R"(,"torch":")").append(torch).append(R"(","cpu":[)").append(cpu);
    out.append(R"(],"inputs":[)").append(inputs).append(R"(],"tensors":[)").append(tensors);
    out.append(R"(],"programs":{"forward":)").append(forward).append(R"(,"backward":)");
    return out.append(backward).append(R"(,"evaluate":)").append(evaluate).append("}}");
  }

  std::string code() const {
    std::string out = "\177ELF";
    out += std::string("\2\1\1\0\0\0\0\0\0\0\0\0", 12);
    put_little<uint16_t>(out, type);
    put_little<uint16_t>(out, machine);
    return out + std::string(44, '\0');
  }

  std::string bytes() const {
    std::string out, weights;
    const auto into = [](std::string& text) {
      return [&text](ByteSpan part) { text += as_text(part); };
    };
    Array count(DType::kI64, {});
    count.mutable_as<int64_t>()[0] = 0;
    const float values[] = {2, 3};
    write_safetensors({{"w", Array::of<float>(DType::kF32, {2}, values)}, {"n", count}},
                      into(weights));
    ZipWriter zip(into(out));
    zip.add("model.json", as_bytes(table()));
    zip.add("model.safetensors", as_bytes(weights));
    const std::string object = code();
    for (const char* name : {"forward.so", "backward.so", "evaluate.so"}) {
      if (has_code) zip.add(name, as_bytes(object));
    }
    zip.finish();
    return out;
  }
};

}  // namespace accel
