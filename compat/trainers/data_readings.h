// Conversions that several formats share: model folders, LoRA adapters, and text and chat datasets.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compat/trainers/import_recipe.h"

namespace accel {

/// The model's folder as `vars.model`; for a model of the hub, the folder of its download. Refuses
/// a model of a type that accel-run lacks. Returns the type, or "".
std::string read_model_folder(TrainerConfig& config, const std::string& key);

/// Refuses the model of a key when accel-run lacks its type.
void check_family(TrainerConfig& config, const std::string& key, const std::string& name,
                  const std::string& type);

/// Keys of a LoRA adapter and their defaults.
struct LoraKeys {
  const char* rank;
  const char* alpha;
  const char* dropout;
  const char* targets;  ///< names of layers: a list, or a text with commas
  const char* saved;    ///< names of modules that are trained as well
  const char* rslora;
  const char* dora = "";
  const char* init = "";  ///< a text, as PEFT's init_lora_weights
  double default_rank = 8;
  double default_alpha = 8;
  double alpha_per_rank = 0;  ///< the default of alpha as a multiple of the rank; 0: default_alpha
  const char* default_dropout = "0";
  bool all_by_default = false;  ///< without targets: all linear layers; else those of PEFT
  bool regex = false;           ///< a text of targets is a regular expression, as in PEFT
};
/// Reads them into `model.lora`.
void read_lora(TrainerConfig& config, const LoraKeys& keys, const std::string& model_type);

/// 4-bit weights of bitsandbytes below an adapter.
struct QuantizationValues {
  std::string type;           ///< nf4 or fp4; others are refused at `type_key`
  bool double_quant;          ///< quantizes the scales of blocks
  const char* key;            ///< that asks for 4 bits
  const char* type_key = "";  ///< of `type`; "": it is fixed
};
/// Writes them into `model.quantization`. The compute type stays that of mixed precision.
void set_quantization(TrainerConfig& config, const QuantizationValues& values);

/// A dataset of another trainer.
struct DataFile {
  enum class Kind { kChat, kDocuments, kWindows, kPreference, kUnpaired, kPrompts };
  Kind kind = Kind::kChat;
  std::string path;         ///< of a file, or a name on the hub
  std::string split;        ///< as the config gives it
  std::string subset;       ///< of a dataset of the hub, the configuration; "": the only one
  std::string field;        ///< of the messages, texts or prompts; "": the usual one
  std::string label;        ///< of labelled answers, the field of the label; "": label
  std::string role_key;     ///< of a message; "": role
  std::string content_key;  ///< of a message; "": content
  std::map<std::string, std::string> roles;  ///< the template's role of each role of the file
  std::string max_length;
  std::string first;  ///< number of samples from the first; "": all
  bool pack = false;
  bool answers_only = true;
  bool last_answer = false;
  bool completions = false;        ///< of chats: rows of a prompt and a completion, as in TRL
  bool append_eos = true;          ///< of one text per sample
  bool keep_end = false;           ///< of preferences: the beginning of long prompts is cut
  bool texts_as_messages = false;  ///< of preferences
};

/// Datasets as `data.train` or `data.eval`, of task causal_lm unless they are preferences, in pairs
/// or not, or prompts. A dataset of the hub becomes a file that the recipe misses.
void set_datasets(TrainerConfig& config, const std::string& target,
                  const std::vector<DataFile>& files, const std::string& key);

/// The recipe's key of the length of its texts: "data.train.max_length".
std::string length_key(const DataFile& file);

/// The held-out share or number of `key` as `data.split`, or as ranges of a single text file.
void set_held_out(TrainerConfig& config, const std::string& key);

/// Whether a path is a file for `type: text`.
bool is_text_file(const std::string& path);

/// Whether a name is a path on this machine and not a dataset of the hub.
bool is_local_path(const std::string& path);

/// The field of the first line of a local file of JSON Lines: "messages", "text",
/// "chosen", "completion" of a row that has a prompt, or "".
std::string field_of_file(const std::string& path);

}  // namespace accel
