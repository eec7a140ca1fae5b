#!/usr/bin/env python3
"""Writes the tokenizers that the unit tests load, and the ids that the Python package gives for awkward
texts.   make_tokenizers.py [--check]

--check instead compares the ids that are there with those of the package at hand.
"""

import base64
import json
import random
import sys
import unicodedata
from pathlib import Path

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/unit/text/golden"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
VOCABULARY = 700

SAYINGS = [
    "Hello, world!", "  two  spaces   three ", "don't it'll WE'RE I'M they'd've", "line\nbreaks\r\n\n\tand tabs\t\t",
    "def f(x):\n    return x ** 2  # 12345 0x1F\n", "½ ² Ⅳ ٣ १२३ 1234567", "Привет, мир! Ёжик.", "你好，世界。这是测试",
    "日本語のテキスト、カタカナ ｶﾀｶﾅ", "안녕하세요 세계", "مرحبا بالعالم", "नमस्ते दुनिया", "Ελληνικά ΣΑΣ", "İSTANBUL ısı straße",
    "Crème brûlée à la façade naïve Ångström", "e\u0301 A\u030a ﬁ ℌ Ω", "👩‍👩‍👧‍👦 🇩🇪 👍🏽 😀😃", "Đây là tiếng Việt", "ไทยภาษา", "עברית",
    "a\u200bb\u200dc\u00adz\ufeff", "\x01\x02control\x7f\x85\x9f", "nul\x00inside", "\u1680\u180e\u2003\u3000white", "\ufffd\ue000\u0378",
    "<s>a</s> <mask> [MASK][SEP] <|endoftext|>", "Word words Word's sWord Word", "x <extra_id_0>  y", "<|begin_of_text|>hi<|end_of_text|>",
    "a" * 120, "ab" * 70, " " * 40, "", " ", "\n", "-- ... !!! (x) [y] {z} 'q' \"r\"", "https://example.org/a?b=c&d=%20#e", "$1,234.56 50% #tag @user",
    "A.B.C. e.g. i.e.", "CamelCaseWords snake_case_words kebab-case", "do not 's n't ' . ? ! ,", "▁under▁score", "##ing ##", "<0x41><0xE4>",
]


def texts():
    """The sayings, and random mixtures of characters that Unicode 14 and older know."""
    rng = random.Random(7)
    known = [c for c in range(1, 0x110000)
             if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co")]
    near = [c for c in known if c < 0x3100]
    made = list(SAYINGS)
    while len(made) < 240:
        pool = rng.choice((near, known, range(32, 127)))
        made.append("".join(chr(rng.choice(pool)) if rng.random() < 0.8 else rng.choice((" ", "  ", "the", "ing", "\n", "'s", "12"))
                            for _ in range(rng.randrange(1, 16))))
    return made


def training_lines():
    found = [line for path in sorted((ROOT / "docs").glob("*.md")) for line in path.read_text().split("\n")]
    return found + SAYINGS * 5


def gpt2(lines):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t, {"bos_token": "<|endoftext|>", "eos_token": {"content": "<|endoftext|>", "lstrip": False}}


def llama3(lines):
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
            special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])])
    return t, None


def bert(lines):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(lines, trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t, None


def t5(lines):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(),
                                         normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(lines, trainers.UnigramTrainer(
        vocab_size=VOCABULARY, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                     special_tokens=[("</s>", 1)])
    t.add_tokens([AddedToken("<extra_id_0>", special=True, lstrip=True, rstrip=True),
                  AddedToken("Word", single_word=True, normalized=True)])
    return t, None


def llama2(lines):
    """Characters that are no token become bytes; merges in the old spelling."""
    learner = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    learner.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=VOCABULARY, limit_alphabet=100, show_progress=False,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]))
    t = json.loads(learner.to_str())
    t["model"]["merges"] = [" ".join(pair) for pair in t["model"]["merges"]]
    t["added_tokens"] = t["added_tokens"][:3]
    t["pre_tokenizer"] = None
    t = Tokenizer.from_str(json.dumps(t))
    merges = json.loads(t.to_str())
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                     special_tokens=[("<s>", 1)])
    file = json.loads(t.to_str())
    file["model"]["merges"] = [" ".join(pair) for pair in merges["model"]["merges"]]
    return file, None


def odd(lines):
    """What the others leave out."""
    t = Tokenizer(models.BPE(continuing_subword_prefix="##", end_of_word_suffix="</w>", unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.NFD(), normalizers.StripAccents(),
                                         normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation(behavior="contiguous")])
    t.decoder = decoders.BPEDecoder()
    t.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["[UNK]", "<s>", "</s>"], limit_alphabet=120,
        continuing_subword_prefix="##", end_of_word_suffix="</w>", show_progress=False))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return t, None


def precompiled(lines):
    """SentencePiece's table of replacements, made by its trainer from seven rules."""
    t, _ = t5(lines)
    file = json.loads(t.to_str())
    table = (Path(__file__).parent / "data/small_charsmap.base64").read_text().strip()
    assert base64.b64decode(table)
    file["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": table}
    return file, None


MAKERS = (gpt2, llama3, bert, t5, llama2, odd, precompiled)


def expected(tokenizer, strings):
    """For each text its ids and what they decode to, and for some a pair."""
    answers = []
    for i, text in enumerate(strings):
        ids = tokenizer.encode(text).ids
        answer = {"ids": ids, "decoded": tokenizer.decode(ids)}
        if i % 12 == 0:
            pair = tokenizer.encode(text, "Word pairs " + text)
            answer.update(pair=pair.ids, types=pair.type_ids, plain=tokenizer.encode(text, add_special_tokens=False).ids,
                          raw=tokenizer.decode(ids, skip_special_tokens=False))
        answers.append(answer)
    return answers


def main():
    strings = texts()
    if sys.argv[1:] == ["--check"]:
        strings = json.loads((GOLDEN / "texts.json").read_text())
        for make in MAKERS:
            folder = GOLDEN / make.__name__
            answers = expected(Tokenizer.from_file(str(folder / "tokenizer.json")), strings)
            assert answers == json.loads((folder / "expected.json").read_text()), folder
        return
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / "texts.json").write_text(json.dumps(strings))
    lines = training_lines()
    for make in MAKERS:
        folder = GOLDEN / make.__name__
        folder.mkdir(exist_ok=True)
        tokenizer, config = make(lines)
        text = json.dumps(tokenizer if isinstance(tokenizer, dict) else json.loads(tokenizer.to_str()))
        (folder / "tokenizer.json").write_text(text)
        if config:
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
        answers = expected(Tokenizer.from_file(str(folder / "tokenizer.json")), strings)
        (folder / "expected.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
