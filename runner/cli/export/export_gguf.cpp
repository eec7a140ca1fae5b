#include "runner/cli/export/export_gguf.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/format_error.h"
#include "core/base/text.h"
#include "runner/cli/export/export_config.h"
#include "runner/cli/export/export_weights.h"
#include "text/gguf_tokenizer.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kQuantizationVersion = 2;  // of Q8_0's layout

struct GgufTypeName {
  const char* name;
  GgmlType type;
  uint32_t file_type;  ///< llama.cpp's number
};

constexpr GgufTypeName kGgufTypes[] = {{"f16", GgmlType::kF16, 1},
                                       {"bf16", GgmlType::kBF16, 32},
                                       {"f32", GgmlType::kF32, 0},
                                       {"q8_0", GgmlType::kQ8_0, 7}};

uint32_t file_type_of(GgmlType type) {
  for (const GgufTypeName& known : kGgufTypes) {
    if (known.type == type) return known.file_type;
  }
  throw std::logic_error("unknown GgmlType");
}

/// The tokenizer of the data, else that of the initial weights; none: "".
std::string tokenizer_of(const ExportSource& source) {
  if (source.tokenizers.size() > 1) {
    throw Error(ExitCode::kRecipe,
                text("a GGUF file has one tokenizer, and the recipe names {}: {}",
                     source.tokenizers.size(), quoted_list(source.tokenizers)),
                "export a folder for transformers: '--format transformers'");
  }
  std::error_code error;
  for (const std::string& path : source.tokenizers) {
    if (fs::exists(path, error)) return path;
    throw Error(ExitCode::kRecipe, text("the tokenizer '{}' no longer exists", path),
                "put it back: a GGUF file contains the tokenizer");
  }
  for (const char* file : {"tokenizer.json", "tokenizer.model"}) {
    if (!source.base.empty() && fs::exists(fs::path(source.base) / file, error)) {
      return source.base;
    }
  }
  return "";
}

void add_tokenizer_fields(const ExportSource& source, int64_t rows, GgufExport& out) {
  const std::string path = tokenizer_of(source);
  if (path.empty()) {
    out.file.fields.push_back({"tokenizer.ggml.model", std::string("none")});
    out.notes.emplace_back(
        "the model has no tokenizer: llama.cpp takes its token ids, and no texts");
    return;
  }
  GgufTokenizer tokenizer = gguf_tokenizer(path, rows);
  for (GgufField& field : tokenizer.fields) out.file.fields.push_back(std::move(field));
  for (std::string& note : tokenizer.notes) out.notes.push_back(std::move(note));
}

void add_tensors(GgufModel model, GgmlType type, GgufExport& out) {
  std::vector<std::string> ragged;
  for (TensorSource& tensor : model.tensors) {
    const bool is_exact = tensor.shape.size() < 2 || model.exact.contains(tensor.name);
    GgmlType own = is_exact ? GgmlType::kF32 : type;
    if (!is_exact && !holds_rows_of(own, tensor.shape.back())) {
      own = GgmlType::kF16;
      ragged.push_back(tensor.name);
    }
    out.file.tensors.push_back({std::move(tensor), own});
  }
  if (ragged.empty()) return;
  out.notes.push_back(
      text("tensors in F16, because the length of their rows is not a multiple of "
           "{}'s block of {}: {}",
           name_of(type), kGgmlBlock, quoted_list(ragged)));
}

}  // namespace

std::vector<std::string> gguf_type_names() {
  std::vector<std::string> out;
  for (const GgufTypeName& known : kGgufTypes) out.emplace_back(known.name);
  return out;
}

GgmlType gguf_type_named(const std::string& name) {
  for (const GgufTypeName& known : kGgufTypes) {
    if (name == known.name) return known.type;
  }
  throw std::logic_error("unknown type " + name);
}

GgufExport gguf_export(const ExportSource& source, const std::vector<TensorSource>& weights,
                       GgmlType type, const std::string& name) {
  const WeightShapes shapes = shapes_of(weights);
  const Node options = untied_options(source, shapes);
  const nlohmann::json config = exported_config(source, options, shapes);
  HfNames names = source.family->names(options);
  names.transposed.clear();  // llama.cpp has all linear layers [out, in]
  GgufModel model = source.family->gguf(options, config, stored_sources(weights, names));
  GgufExport out;
  out.file.fields = {{"general.architecture", model.architecture},
                     {"general.type", std::string("model")},
                     {"general.name", name},
                     {"general.file_type", file_type_of(type)},
                     {"general.quantization_version", kQuantizationVersion}};
  for (GgufField& field : model.fields) out.file.fields.push_back(std::move(field));
  out.notes = std::move(model.notes);
  add_tokenizer_fields(source, config.at("vocab_size").get<int64_t>(), out);
  add_tensors(std::move(model), type, out);
  return out;
}

void write_gguf_file(const std::string& path, const GgufFile& file) {
  try {
    write_file_atomically(path, [&](const ByteSink& sink) { write_gguf(file, sink); });
  } catch (const FormatError& error) {
    throw Error(ExitCode::kRecipe, text("cannot write '{}': {}", path, error.what()),
                "choose a type with a larger range: '--gguf-type bf16' or 'f32'");
  }
}

std::string gguf_tensors_text(const GgufFile& file) {
  std::map<GgmlType, size_t> counts;
  for (const GgufTensor& tensor : file.tensors) ++counts[tensor.type];
  std::vector<std::string> lines;
  for (const auto& [type, count] : counts) {
    const char* noun = lines.empty() ? (count == 1 ? " tensor" : " tensors") : "";
    lines.push_back(text("{}{} in {}", count, noun, name_of(type)));
  }
  return joined(lines);
}

}  // namespace accel
