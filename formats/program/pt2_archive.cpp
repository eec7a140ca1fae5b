// Archive of an exported program: its files and tensors.
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/text.h"
#include "core/base/whole_number.h"
#include "formats/archive/zip.h"
#include "formats/program/pt2_json.h"
#include "formats/strict_json.h"
#include "formats/untrusted.h"

namespace accel {
namespace {

using nlohmann::json;

constexpr int kGraphDepth = 96;  // a nested graph takes about ten levels
constexpr size_t kTensorEntryBytes = 2 * sizeof(Pt2Tensor);
constexpr std::string_view kPrograms = "models/";
constexpr std::string_view kJsonEnd = ".json";
constexpr int64_t kStrided = 7;

/// Type by number in the format; complex and 8-bit floating-point types are not supported.
DType pt2_dtype(int64_t number) {
  constexpr std::pair<int64_t, DType> kTypes[] = {
      {1, DType::kU8},  {2, DType::kI8},  {3, DType::kI16}, {4, DType::kI32},   {5, DType::kI64},
      {6, DType::kF16}, {7, DType::kF32}, {8, DType::kF64}, {12, DType::kBool}, {13, DType::kBF16},
  };
  for (const auto& [code, type] : kTypes) {
    if (code == number) return type;
  }
  throw FormatError(text("the element type {} is not supported", number));
}

Shape sizes_of(const json& meta, const char* key) {
  Shape out;
  for (const json& size : pt2_list(meta, key)) {
    out.push_back(pt2_integer(pt2_member(size, "as_int"), key));
    if (out.back() < 0) {
      throw FormatError(text("'{}' has a negative number", key));
    }
  }
  return out;
}

/// Whether all elements of the tensor are inside its storage.
bool fits(const Pt2Tensor& tensor) {
  int64_t last = tensor.offset, bytes = 0;
  if (last < 0 || tensor.sizes.size() != tensor.strides.size()) return false;
  if (!claimed_bytes(tensor.type, tensor.sizes)) return false;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return true;
    int64_t step = 0;
    if (__builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &step)) return false;
    if (__builtin_add_overflow(last, step, &last)) return false;
  }
  const auto element = static_cast<int64_t>(size_of(tensor.type));
  if (__builtin_add_overflow(last, int64_t{1}, &last)) return false;
  return !__builtin_mul_overflow(last, element, &bytes) &&
         bytes <= static_cast<int64_t>(tensor.bytes.size());
}

class Pt2ArchiveReader {
 public:
  explicit Pt2ArchiveReader(const SharedBytes& file)
      : zip_(file.view), budget_(file.view.size(), "the archive") {
    out_.file = file;
  }

  Pt2File read() {
    std::string root;
    for (const auto& [name, bytes] : zip_.entries()) {
      const size_t at = name.find(kPrograms);
      if (at == name.npos || !name.ends_with(kJsonEnd)) continue;
      if (at != 0 && name[at - 1] != '/') continue;
      if (name.find('/', at + kPrograms.size()) != name.npos) continue;
      const std::string program =
          name.substr(at + kPrograms.size(), name.size() - at - kPrograms.size() - kJsonEnd.size());
      read_program(name.substr(0, at), program, as_text(bytes));
    }
    if (out_.programs.empty()) {
      throw FormatError("the archive has no 'models/*.json' of torch.export");
    }
    for (const auto& [name, program] : out_.programs) check_tensors(program, name);
    return std::move(out_);
  }

 private:
  /// The tree is temporary: the caller gives its tree_bytes_ back to the budget.
  json parse(std::string_view text, const std::string& what) {
    const size_t before = budget_.left();
    json parsed = parse_strict_json(text, what, kGraphDepth, budget_);
    tree_bytes_ = before - budget_.left();
    return parsed;
  }

  void read_program(const std::string& root, const std::string& name, std::string_view text) {
    const std::string what = accel::text("the program '{}'", name);
    try {
      const json parsed = parse(text, what);
      Pt2Program& program = out_.programs[name] = read_pt2_program(parsed, budget_);
      constants_.clear();
      for (Pt2Input& input : program.inputs) {
        if (input.kind != Pt2Input::Kind::kConstant) continue;
        constants_.insert(input.name);
        input.name = name + "/" + input.name;
      }
    } catch (const FormatError& error) {
      const std::string message = error.what();
      throw FormatError(message.starts_with(what) ? message : accel::text("{}: {}", what, message));
    }
    budget_.give_back(tree_bytes_);
    read_tensors(root + "data/weights/", name, "_weights_config.json");
    read_tensors(root + "data/constants/", name, "_constants_config.json");
  }

  void read_tensors(const std::string& folder, const std::string& program, const char* config) {
    const std::string path = folder + program + config;
    const auto entry = zip_.entries().find(path);
    if (entry == zip_.entries().end()) return;
    const std::string what = "'" + path + "'";
    const json parsed = parse(as_text(entry->second), what);
    for (const auto& [given, value] : pt2_member(parsed, "config").items()) {
      const std::string name = constants_.contains(given) ? program + "/" + given : given;
      if (out_.tensors.contains(name)) continue;
      try {
        budget_.take(kTensorEntryBytes + name.size());
        out_.tensors.emplace(name, read_tensor(folder, value));
      } catch (const FormatError& error) {
        throw FormatError(text("the tensor '{}': {}", name, error.what()));
      }
    }
    budget_.give_back(tree_bytes_);
  }

  Pt2Tensor read_tensor(const std::string& folder, const json& value) {
    if (pt2_flag(pt2_member(value, "use_pickle"), "'use_pickle'")) {
      throw FormatError("it is pickled, as tensor subclasses are, which is not supported");
    }
    const std::string path = folder + pt2_text(pt2_member(value, "path_name"), "'path_name'");
    const auto bytes = zip_.entries().find(path);
    if (bytes == zip_.entries().end()) throw FormatError(text("the archive has no '{}'", path));
    const json& meta = pt2_member(value, "tensor_meta");
    if (pt2_integer(pt2_member(meta, "layout"), "'layout'") != kStrided) {
      throw FormatError("its layout is not strided");
    }
    const json& offset = pt2_member(pt2_member(meta, "storage_offset"), "as_int");
    Pt2Tensor out = {path,
                     bytes->second,
                     pt2_dtype(pt2_integer(pt2_member(meta, "dtype"), "'dtype'")),
                     sizes_of(meta, "sizes"),
                     sizes_of(meta, "strides"),
                     pt2_integer(offset, "'storage_offset'"),
                     pt2_flag(pt2_member(meta, "requires_grad"), "'requires_grad'")};
    if (!fits(out)) {
      throw FormatError(text("its shape {} exceeds the {} bytes of '{}'", to_string(out.sizes),
                             out.bytes.size(), path));
    }
    return out;
  }

  void check_tensors(const Pt2Program& program, const std::string& name) const {
    for (const Pt2Input& input : program.inputs) {
      if (input.kind == Pt2Input::Kind::kUser || out_.tensors.contains(input.name)) continue;
      throw FormatError(
          text("the program '{}' uses the tensor '{}', which is missing", name, input.name));
    }
  }

  ZipReader zip_;
  MemoryBudget budget_;
  size_t tree_bytes_ = 0;
  std::set<std::string> constants_;  ///< names of the current program's constants
  Pt2File out_;
};

}  // namespace

const json& pt2_member(const json& object, const char* key) {
  if (!object.is_object()) {
    throw FormatError(text("expected an object with '{}'", key));
  }
  const auto found = object.find(key);
  if (found == object.end()) throw FormatError(text("'{}' is missing", key));
  return *found;
}

const json& pt2_list(const json& object, const char* key) {
  const json& list = pt2_member(object, key);
  if (!list.is_array()) throw FormatError(text("'{}' is not a list", key));
  return list;
}

std::string pt2_text(const json& value, const char* what) {
  if (!value.is_string()) throw FormatError(accel::text("{} is not a string", what));
  return value.get<std::string>();
}

int64_t pt2_integer(const json& value, const char* what) {
  const auto number = whole_number<int64_t>(value);
  if (!number) throw FormatError(accel::text("{} is not an integer", what));
  return *number;
}

bool pt2_flag(const json& value, const char* what) {
  if (!value.is_boolean()) throw FormatError(accel::text("{} is not true or false", what));
  return value.get<bool>();
}

std::string pt2_kind(const json& value) {
  if (!value.is_object() || value.size() != 1) throw FormatError("expected an object with one key");
  return value.begin().key();
}

void check_pt2(const SharedBytes& file) {
  ZipReader(file.view).check_data();
}

Pt2File read_pt2(const SharedBytes& file) {
  return Pt2ArchiveReader(file).read();
}

}  // namespace accel
