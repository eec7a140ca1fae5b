// Preparation of a text corpus: documents are tokenized, shuffled and written as token shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "data/corpus/token_shards.h"
#include "data/datasets/skipped_samples.h"

namespace accel {

struct CorpusOptions {
  std::vector<std::string> files;  ///< as corpus_files() returns them
  std::string field = "text";      ///< of a document; of lines of a .txt file always the line
  std::string tokenizer;           ///< as load_tokenizer() takes it
  bool append_eos = true;          ///< the tokenizer's end token follows each document
  bool prepend_bos = false;
  bool shuffle = true;
  uint64_t seed = 0;
  int64_t shard_bytes = int64_t{256} << 20;
  OnBadSample on_bad_sample;
  CorpusPart part;
};

/// The files of a corpus in order: of folders, at any depth, those with readable_extensions(),
/// sorted by path. Throws DataError for a missing path and when there are none.
std::vector<std::string> corpus_files(const std::vector<std::string>& paths);

/// The files that a part reads, in order. Parts have about the same number of bytes, and the choice
/// depends on names and sizes alone. Throws DataError for more parts than files.
std::vector<std::string> files_of_part(const std::vector<std::string>& files,
                                       const CorpusPart& part);

/// Hash of all that determines the tokens of a corpus: names and sizes of all files, tokenizer and
/// options; not the part.
std::string corpus_identity(const CorpusOptions& options);

/// Writes shards and index into the existing, empty folder. The order of documents is a permutation
/// of those of the part that depends on `seed` and the documents alone, not on threads. Memory:
/// about a shard, or 1/256 of the tokens if that is more. Throws DataError and FileError.
ShardsIndex prepare_corpus(Files& files, const CorpusOptions& options, const std::string& folder);

}  // namespace accel
