// Corpora as token shards, and the dataset that reads them.
#include "data/corpus/corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::corpus_test {
namespace {

/// The first line of what `act` throws.
template <class Act>
std::string problem(const Act& act) {
  const std::string all = complaint(act);
  return all.substr(0, all.find('\n'));
}

/// Documents "wN wN+1" of words; token 0 is the end token.
class CorpusTest : public testing::Test {
 protected:
  static constexpr int64_t kWords = 40;

  CorpusTest() {
    std::string vocab = R"("<end>": 0)";
    for (int64_t i = 1; i <= kWords; ++i) vocab += text(R"(, "w{}": {})", i, i);
    folder_.write("tokenizer.json", R"({"version": "1.0", "added_tokens": [
      {"id": 0, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": true}],
      "pre_tokenizer": {"type": "WhitespaceSplit"},
      "model": {"type": "WordLevel", "unk_token": "<end>", "vocab": {)" +
                                        vocab + "}}}");
    folder_.write("special_tokens_map.json", R"({"eos_token": "<end>"})");
  }

  std::string document(int64_t number) const {
    return text("w{} w{}", number % kWords + 1, (number + 1) % kWords + 1);
  }

  /// A file of documents `first` to `first + count`.
  void write(const std::string& name, int64_t first, int64_t count) {
    std::string lines;
    for (int64_t i = first; i < first + count; ++i) {
      lines += R"({"body": ")" + document(i) + R"(", "id": )" + std::to_string(i) + "}\n";
    }
    folder_.write("texts/" + name, lines);
  }

  CorpusOptions options() const {
    CorpusOptions out;
    out.files = corpus_files({folder_.path("texts")});
    out.field = "body";
    out.tokenizer = folder_.path("tokenizer.json");
    return out;
  }

  ShardsIndex prepare(const CorpusOptions& options, const std::string& name = "out") {
    DiskFiles files;
    files.make_dirs(folder_.path(name));
    return prepare_corpus(files, options, folder_.path(name));
  }

  std::vector<int64_t> tokens(const std::string& name = "out") {
    const TokenFiles files(folder_.path(name));
    std::vector<int64_t> out(static_cast<size_t>(files.size()));
    files.read(0, out);
    return out;
  }

  std::string complaint_of(const std::string& name) {
    std::string out = problem([&] { const TokenFiles files(folder_.path(name)); });
    for (size_t at; (at = out.find(folder_.path() + "/")) != out.npos;) {
      out.erase(at, folder_.path().size() + 1);
    }
    return out;
  }

  TempFolder folder_;
};

TEST_F(CorpusTest, DocumentsInOrderEndWithTheEndToken) {
  folder_.write("texts/a.jsonl",
                "{\"body\": \"w1 w2\"}\n{\"body\": \"\"}\n{\"body\": \"w3 <end>\"}\n");
  CorpusOptions plain = options();
  plain.shuffle = false;
  const ShardsIndex index = prepare(plain);
  EXPECT_EQ(index.documents, 2);
  EXPECT_EQ(index.empty_documents, 1);
  EXPECT_EQ(index.width, 2);
  EXPECT_EQ(index.vocab_size, kWords + 1);
  EXPECT_EQ(tokens(), (std::vector<int64_t>{1, 2, 0, 3, 0}));
  plain.append_eos = false;
  prepare(plain, "bare");
  EXPECT_EQ(tokens("bare"), (std::vector<int64_t>{1, 2, 3, 0}));
  EXPECT_NE(corpus_identity(plain), index.identity);
}

/// The documents of tokens, sorted.
std::multiset<std::vector<int64_t>> documents_in(const std::vector<int64_t>& tokens) {
  std::multiset<std::vector<int64_t>> out;
  std::vector<int64_t> document;
  for (const int64_t token : tokens) {
    document.push_back(token);
    if (token != 0) continue;
    out.insert(document);
    document.clear();
  }
  EXPECT_TRUE(document.empty());
  return out;
}

TEST_F(CorpusTest, ShufflingPermutesDocumentsOverShards) {
  write("a.jsonl", 0, 300);
  write("b.jsonl", 300, 100);
  CorpusOptions shuffled = options();
  shuffled.shard_bytes = 60;  // about ten documents
  const ShardsIndex index = prepare(shuffled);
  EXPECT_EQ(index.documents, 400);
  EXPECT_EQ(index.shards.size(), 40U);
  EXPECT_EQ(index.shards.back().file, "shard_00039.bin");
  const std::vector<int64_t> mixed = tokens();
  CorpusOptions ordered = shuffled;
  ordered.shuffle = false;
  prepare(ordered, "ordered");
  EXPECT_NE(mixed, tokens("ordered"));
  EXPECT_EQ(documents_in(mixed), documents_in(tokens("ordered")));
  prepare(shuffled, "again");
  EXPECT_EQ(mixed, tokens("again"));
  shuffled.seed = 1;
  prepare(shuffled, "other");
  EXPECT_NE(mixed, tokens("other"));
  // The first shard has documents of the whole corpus.
  std::set<int64_t> first;
  for (size_t i = 0; i < 30; i += 3) first.insert(mixed[i]);
  EXPECT_GT(first.size(), 5U);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("out/bucket_0")));
}

TEST_F(CorpusTest, PartsTogetherAreTheCorpus) {
  for (int i = 0; i < 5; ++i) write(text("{}.jsonl", i), 20 * i, 20);
  std::vector<std::string> all;
  std::multiset<std::vector<int64_t>> parts;
  for (int64_t i = 0; i < 2; ++i) {
    CorpusOptions part = options();
    part.part = {i, 2};
    for (const std::string& file : files_of_part(part.files, part.part)) all.push_back(file);
    prepare(part, "out/" + part.part.folder());
    if (i == 0) {
      EXPECT_EQ(complaint_of("out"), "'out' lacks 'part_00001_of_00002'");
      EXPECT_EQ(complaint_of("out/part_00000_of_00002"),
                "'out/part_00000_of_00002' is part 1 of 2 of a corpus");
    }
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, options().files);
  prepare(options(), "whole");
  EXPECT_EQ(documents_in(tokens()), documents_in(tokens("whole")));
  CorpusOptions other = options();
  other.seed = 3;
  other.part = {1, 2};
  std::filesystem::remove_all(folder_.path("out/part_00001_of_00002"));
  prepare(other, "out/part_00001_of_00002");
  EXPECT_EQ(complaint_of("out"),
            "'part_00000_of_00002' and 'part_00001_of_00002' of 'out' are parts of different "
            "corpora");
  std::filesystem::remove_all(folder_.path("out/part_00001_of_00002"));
  other.seed = 0;
  prepare(other, "out/part_00001_of_00002");
  std::filesystem::create_directories(folder_.path("out/part_00002_of_00003"));
  EXPECT_EQ(complaint_of("out"), "'out' has 3 parts, not 2");
  CorpusOptions many = options();
  EXPECT_EQ(problem([&] {
              files_of_part(many.files, {0, 6});
            }),
            "6 parts of 5 files: a part is at least one file");
}

TEST_F(CorpusTest, DamagedFoldersAreRefused) {
  write("a.jsonl", 0, 10);
  prepare(options());
  folder_.write("out/shard_00000.bin", "abc");
  EXPECT_EQ(complaint_of("out"), "'out/shard_00000.bin' is 3 bytes, not 60");
  folder_.write("out/tokens.json", R"({"format": "accel-run token shards", "version": 2})");
  EXPECT_EQ(complaint_of("out"), "'out/tokens.json' is no index of token shards");
  std::filesystem::remove(folder_.path("out/tokens.json"));
  EXPECT_EQ(complaint_of("out"), "'out' has neither 'tokens.json' nor parts of a corpus");
}

TEST_F(CorpusTest, UnreadableDocumentsEndItOrAreCounted) {
  folder_.write("texts/a.jsonl", "{\"body\": \"w1\"}\n{\"body\": 3\n{\"body\": \"w2\"}\n");
  CorpusOptions careful = options();
  EXPECT_NE(problem([&] { prepare(careful); }).find("a.jsonl:2"), std::string::npos);
  careful.on_bad_sample.most = 1;
  const ShardsIndex index = prepare(careful, "kept");
  EXPECT_EQ(index.documents, 2);
  EXPECT_EQ(index.unreadable_documents, 1);
}

TEST_F(CorpusTest, TokensThatTheTokenizerLacksAndEmptyCorporaAreRefused) {
  folder_.write("texts/a.jsonl", "{\"body\": \"\"}\n");
  EXPECT_EQ(problem([&] { prepare(options()); }), "the corpus has no documents with text");
  CorpusOptions bos = options();
  bos.prepend_bos = true;
  EXPECT_EQ(complaint([&] { prepare(bos, "b"); }),
            "the tokenizer has no first token\n"
            "name one as \"bos_token\" in 'special_tokens_map.json' beside it, or give no --bos");
  std::filesystem::remove(folder_.path("special_tokens_map.json"));
  EXPECT_EQ(problem([&] { prepare(options(), "c"); }), "the tokenizer has no end token");
  EXPECT_EQ(problem([&] { corpus_files({folder_.path("none")}); }),
            "no file or folder '" + folder_.path("none") + "'");
  EXPECT_EQ(
      complaint([&] { corpus_files({folder_.write("x.pdf", "x")}); }),
      "'" + folder_.path("x.pdf") +
          "' is of an unknown type\n"
          "give files or folders of .parquet, .arrow, .jsonl, .ndjson, .json, .csv, .tsv, .txt");
}

TEST_F(CorpusTest, WindowsOfAFolderCrossItsShards) {
  write("a.jsonl", 0, 12);
  CorpusOptions small = options();
  small.shard_bytes = 24;
  prepare(small);
  const std::vector<int64_t> all = tokens();
  const auto data =
      build<Dataset>("{type: tokens, path: " + folder_.path("out") + ", max_seq_len: 7}");
  EXPECT_EQ(data->shape().vocab, kWords + 1);
  ASSERT_EQ(data->size(), 5);
  for (int64_t i = 0; i < 5; ++i) {
    const Sample sample = data->sample(i);
    const auto input = sample.input.as<int64_t>();
    const auto target = sample.target.as<int64_t>();
    EXPECT_TRUE(std::equal(input.begin(), input.end(), all.begin() + 7 * i));
    EXPECT_TRUE(std::equal(target.begin(), target.end(), all.begin() + 7 * i + 1));
  }
  const auto refusal = [&](const std::string& more) {
    return complaint<Dataset>("{type: tokens, max_seq_len: 7, path: " + folder_.path("out") + more +
                              "}");
  };
  EXPECT_EQ(refusal(", dtype: uint32"),
            "the tokens of '" + folder_.path("out") + "' are uint16, and 'dtype' is another");
  EXPECT_EQ(refusal(", vocab_size: 40"),
            "'vocab_size' is 40, and the tokenizer of '" + folder_.path("out") + "' has 41 tokens");
  EXPECT_EQ(refusal(", vocab_size: 64"), "");
}

}  // namespace
}  // namespace accel::corpus_test
