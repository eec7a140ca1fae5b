#include "data/corpus/corpus.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "core/api/sample_rng.h"
#include "core/base/activity.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/hub/hub_files.h"
#include "data/datasets/text/text_records.h"
#include "data/loader/epoch_order.h"
#include "text/tokenizer.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

using Tokens = std::vector<int32_t>;

/// Bytes of text that are tokenized in one parallel batch.
constexpr size_t kBatchBytes = size_t{8} << 20;
constexpr size_t kMostBuckets = 256;
/// Buffered tokens of a bucket.
constexpr size_t kBucketBuffer = size_t{32} << 10;
/// Bytes of text for a token of two bytes, about that of English.
constexpr int64_t kTextPerToken = 4;

int64_t size_of_file(const std::string& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  if (error) throw DataError(text("cannot read '{}': {}", file, error.message()));
  return static_cast<int64_t>(bytes);
}

int64_t bytes_of(const std::vector<std::string>& files) {
  return std::accumulate(
      files.begin(), files.end(), int64_t{0},
      [](int64_t sum, const std::string& file) { return sum + size_of_file(file); });
}

bool has_row_extension(const std::string& file) {
  const std::vector<std::string>& known = readable_extensions();
  return std::find(known.begin(), known.end(), fs::path(file).extension()) != known.end();
}

/// Documents of tokens that go to one bucket, on disk until they are permuted.
class Bucket {
 public:
  Bucket(Files& files, std::string path) : path_(std::move(path)), file_(files.create(path_)) {}

  void add(std::span<const int32_t> document) {
    lengths_.push_back(static_cast<uint32_t>(document.size()));
    buffer_.insert(buffer_.end(), document.begin(), document.end());
    if (buffer_.size() * sizeof(int32_t) >= kBucketBuffer) flush();
  }

  void close() {
    flush();
    file_->close();
    file_.reset();
  }

  /// Calls `use` with the documents, permuted.
  template <class Use>
  void each_permuted(uint64_t seed, const Use& use) const {
    const SharedBytes bytes = map_file(path_);
    const std::span tokens(reinterpret_cast<const int32_t*>(bytes.view.data()),
                           bytes.view.size() / sizeof(int32_t));
    std::vector<size_t> starts(lengths_.size() + 1);
    std::partial_sum(lengths_.begin(), lengths_.end(), starts.begin() + 1, std::plus<size_t>());
    for (const int64_t i : permutation(static_cast<int64_t>(lengths_.size()), seed)) {
      const auto at = static_cast<size_t>(i);
      use(tokens.subspan(starts[at], lengths_[at]));
    }
  }

  const std::string& path() const { return path_; }

 private:
  void flush() {
    file_->write(std::as_bytes(std::span<const int32_t>(buffer_)));
    buffer_.clear();
  }

  std::string path_;
  std::unique_ptr<OutputFile> file_;
  Tokens buffer_;
  std::vector<uint32_t> lengths_;
};

class Preparation {
 public:
  Preparation(Files& files, const CorpusOptions& options, const std::string& folder)
      : files_(files),
        options_(options),
        tokenizer_(load_tokenizer(options.tokenizer)),
        width_(token_width(tokenizer_->vocab_size())),
        sources_(files_of_part(options.files, options.part)),
        bad_(options.on_bad_sample, "corpus"),
        writer_(files, folder, width_, options.shard_bytes) {
    const SpecialTokens& special = tokenizer_->special();
    if (options.append_eos) {
      end_ = special.eos ? special.eos : special.sep;
      if (!end_) refuse_token("end", "eos_token", "--no-eos");
    }
    if (options.prepend_bos) {
      begin_ = special.bos;
      if (!begin_) refuse_token("first", "bos_token", "no --bos");
    }
    if (options.shuffle) open_buckets(folder);
  }

  ShardsIndex run() {
    tokenize_all();
    write_buckets();
    bad_.tell(documents_);
    if (documents_ == 0) throw DataError("the corpus has no documents with text");
    ShardsIndex index;
    index.width = width_;
    index.vocab_size = tokenizer_->vocab_size();
    index.documents = documents_;
    index.empty_documents = empty_;
    index.unreadable_documents = bad_.count();
    index.tokenizer = tokenizer_->digest();
    index.identity = corpus_identity(options_);
    index.part = options_.part;
    index.shards = writer_.finish();
    return index;
  }

 private:
  struct Document {
    std::string text;
    std::string place;
  };

  [[noreturn]] static void refuse_token(const char* which, const char* name, const char* flag) {
    throw DataError(
        text("the tokenizer has no {} token", which),
        text("name one as \"{}\" in 'special_tokens_map.json' beside it, or give {}", name, flag));
  }

  void open_buckets(const std::string& folder) {
    const int64_t bytes = bytes_of(sources_) / kTextPerToken * width_;
    const int64_t shards = bytes / options_.shard_bytes + 1;
    const auto count = static_cast<size_t>(std::min(shards, int64_t{kMostBuckets}));
    for (size_t i = 0; i < count; ++i) {
      buckets_.emplace_back(files_, folder + "/bucket_" + std::to_string(i));
    }
  }

  void tokenize_all() {
    Activity shown("tokenizing", "B");
    const int64_t total = bytes_of(sources_);
    int64_t before = 0;
    for (const std::string& file : sources_) {
      read_file(file, [&](int64_t done) {
        shown.progress(before + std::min(done, size_of_file(file)), total);
      });
      before += size_of_file(file);
    }
    tokenize_waiting();
  }

  template <class Progress>
  void read_file(const std::string& file, const Progress& progress) {
    const std::unique_ptr<RecordSource> source = record_source_of(file);
    const bool lines = file.ends_with(".txt");
    const std::unique_ptr<RecordReader> reader = source->open({lines ? "text" : options_.field});
    std::vector<std::string_view> fields;
    int64_t done = 0;
    for (bool more = true; more;) {
      try {
        more = reader->next(fields);
      } catch (const DataError& error) {
        bad_.leave_out(error);
        continue;
      }
      if (!more) break;
      done += static_cast<int64_t>(fields[0].size());
      if (fields[0].empty()) {
        ++empty_;
        continue;
      }
      waiting_bytes_ += fields[0].size();
      waiting_.push_back({std::string(fields[0]), reader->location()});
      if (waiting_bytes_ >= kBatchBytes) {
        tokenize_waiting();
        progress(done);
      }
    }
  }

  Tokens tokens_of(const std::string& document) const {
    Tokens out;
    if (begin_) out.push_back(*begin_);
    const std::vector<int32_t> ids = tokenizer_->encode(document, /*with_special=*/false);
    out.insert(out.end(), ids.begin(), ids.end());
    if (end_ && (out.empty() || out.back() != *end_)) out.push_back(*end_);
    return out;
  }

  void tokenize_waiting() {
    std::vector<Tokens> made(waiting_.size());
    std::vector<std::exception_ptr> failures(waiting_.size());
    parallel_for(waiting_.size(), usable_cores(), [&](size_t i) {
      try {
        made[i] = tokens_of(waiting_[i].text);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
    for (size_t i = 0; i < made.size(); ++i) {
      if (failures[i]) {
        leave_out(waiting_[i], failures[i]);
      } else {
        add(made[i]);
      }
    }
    waiting_.clear();
    waiting_bytes_ = 0;
  }

  void leave_out(const Document& document, const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const DataError& error) {
      bad_.leave_out(DataError(document.place + ": " + error.what(), error.hint()));
    }
  }

  void add(const Tokens& document) {
    const auto number = static_cast<uint64_t>(documents_++);
    if (buckets_.empty()) return writer_.add(document);
    const auto part = static_cast<uint64_t>(options_.part.index);
    SampleRng rng(options_.seed, part, number);
    buckets_[rng.below(buckets_.size())].add(document);
  }

  void write_buckets() {
    Activity shown("shuffling", "shards");
    for (size_t i = 0; i < buckets_.size(); ++i) {
      shown.progress(static_cast<int64_t>(i), static_cast<int64_t>(buckets_.size()));
      buckets_[i].close();
      SampleRng rng(options_.seed, ~static_cast<uint64_t>(options_.part.index), i);
      buckets_[i].each_permuted(rng.next(),
                                [&](std::span<const int32_t> document) { writer_.add(document); });
      files_.remove_tree(buckets_[i].path());
    }
  }

  Files& files_;
  const CorpusOptions& options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t width_;
  std::vector<std::string> sources_;
  BadSamples bad_;
  ShardsWriter writer_;
  std::optional<int32_t> begin_, end_;
  std::vector<Bucket> buckets_;  // none: in the order of the files
  std::vector<Document> waiting_;
  size_t waiting_bytes_ = 0;
  int64_t documents_ = 0, empty_ = 0;
};

}  // namespace

std::vector<std::string> corpus_files(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    if (fs::is_directory(path)) {
      for (const std::string& file : row_files(path)) out.push_back(path + "/" + file);
    } else if (!fs::exists(path)) {
      throw DataError(text("no file or folder '{}'", path), "check its name");
    } else if (!has_row_extension(path)) {
      throw DataError(text("'{}' is of an unknown type", path),
                      text("give files or folders of {}", joined(readable_extensions())));
    } else {
      out.push_back(path);
    }
  }
  return out;
}

std::vector<std::string> files_of_part(const std::vector<std::string>& files,
                                       const CorpusPart& part) {
  if (part.count == 1) return files;
  if (static_cast<size_t>(part.count) > files.size()) {
    throw DataError(
        text("{} parts of {} files: a part is at least one file", part.count, files.size()),
        "ask for fewer parts, or split the files");
  }
  std::vector<std::pair<int64_t, size_t>> largest;  // negative size and index
  for (size_t i = 0; i < files.size(); ++i) largest.emplace_back(-size_of_file(files[i]), i);
  std::sort(largest.begin(), largest.end());
  // Each goes to the part with the fewest bytes; empty files count, so that no part has none.
  std::vector<int64_t> load(static_cast<size_t>(part.count));
  std::vector<size_t> own;
  for (const auto& [negative, file] : largest) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += 1 - negative;
    if (least - load.begin() == part.index) own.push_back(file);
  }
  std::sort(own.begin(), own.end());
  std::vector<std::string> out;
  for (const size_t file : own) out.push_back(files[file]);
  return out;
}

std::string corpus_identity(const CorpusOptions& options) {
  Fingerprint fingerprint;
  fingerprint.add(load_tokenizer(options.tokenizer)->digest()).add(options.field);
  for (const bool flag : {options.append_eos, options.prepend_bos, options.shuffle}) {
    fingerprint.add(static_cast<int64_t>(flag));
  }
  fingerprint.add(static_cast<int64_t>(options.seed)).add(options.shard_bytes);
  fingerprint.add(options.on_bad_sample.most.value_or(-1)).add(options.part.count);
  for (const std::string& file : options.files) {
    fingerprint.add(fs::path(file).filename().string()).add(size_of_file(file));
  }
  return fingerprint.text();
}

ShardsIndex prepare_corpus(Files& files, const CorpusOptions& options, const std::string& folder) {
  ShardsIndex index = Preparation(files, options, folder).run();
  write_file_atomically(files, folder + "/" + kShardsIndex, shards_index_text(index));
  return index;
}

}  // namespace accel
