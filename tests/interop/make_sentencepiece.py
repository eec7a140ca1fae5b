"""Writes tests/unit/text/golden/sentencepiece: small .model files, and golden.json with what SentencePiece makes
of odd texts by each; with --check compares it with them.
"""

import io
import json
import pathlib
import random
import sys
import tempfile
import unicodedata

import sentencepiece

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/unit/text/golden/sentencepiece"

# Small where those that SentencePiece brings are large: what is replaced, and by what, in hexadecimal.
RULES = ["FB01\t66 69", "2460\t31", "FF76\t30AB", "FF76 FF9E\t30AC", "3000\t20", "9\t20", "A\t20", "200B\t", "65 301\tE9",
         "DF\t73 20 73", "1F642\t3A 29 20"] + [f"{c:X}\t{c + 32:X}" for c in range(0x41, 0x5B)]

CASES = {
    "unigram": {"model_type": "unigram", "vocab_size": 200},
    "unigram_bytes": {"model_type": "unigram", "vocab_size": 400, "byte_fallback": True,
                      "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "unigram_own": {"model_type": "unigram", "vocab_size": 200, "user_defined_symbols": ["<mask>", "aa", "▁www"],
                    "control_symbols": ["<cls>"], "pad_id": 3},
    "bpe": {"model_type": "bpe", "vocab_size": 200, "unk_surface": "??", "add_dummy_prefix": False},
    "bpe_bytes": {"model_type": "bpe", "vocab_size": 420, "byte_fallback": True, "split_by_whitespace": False,
                  "normalization_rule_name": "identity"},
    "bpe_own": {"model_type": "bpe", "vocab_size": 200, "user_defined_symbols": ["<mask>", "aa"],
                "treat_whitespace_as_suffix": True},
    "unigram_unused": {"model_type": "unigram", "vocab_size": 200},
    "bpe_unused": {"model_type": "bpe", "vocab_size": 300},
}

PIECES = ["<s>", "</s>", "<unk>", "<mask>", "<cls>", "▁", "  ", " ", "\t", "\n", "www", "aaaa", "zzz", "<0x41>", "ﬁ", "ｶﾞ",
          "①", "ß", "E", "\u200b", "\u3000", "e\u0301", "\x00", "\ufffd", "日本語", "🙂"]
CHARACTERS = [chr(c) for c in range(1, 0x30000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


def words_of(draw):
    return ["".join(draw.choices("etaoinshrdlucmfwypvbgkjqxz", k=draw.randint(1, 8))) for _ in range(1500)]


def corpus(draw, words):
    return [" ".join(draw.choices(words, k=draw.randint(3, 12))) for _ in range(1500)]


def odd_text(draw, words):
    out = []
    for _ in range(draw.randint(0, 12)):
        kind = draw.random()
        out.append(draw.choice(words if kind < 0.4 else PIECES if kind < 0.75 else CHARACTERS))
        out.append(" " * (draw.random() < 0.5))
    return "".join(out)


def train(texts, options):
    made = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write("".join(rule + "\n" for rule in RULES))
        rules.flush()
        if "normalization_rule_name" not in options:
            options = {**options, "normalization_rule_tsv": rules.name}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=made, minloglevel=5,
                                                 character_coverage=0.995, **options)
    return made.getvalue()


def number(data, at):
    """The variable-length number at a place, and the place behind it."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def with_unused(model):
    """The model with each third piece of several characters made one that is not to be used."""
    out, at, count = b"", 0, 0
    while at < len(model):
        tag, begin = number(model, at)
        size, begin = number(model, begin)
        message = model[begin:begin + size]
        text = message[2:2 + message[1]].decode() if tag == 0x0A else ""
        if len(text) > 1 and not text.startswith("<"):
            count += 1
            if count % 3 == 0:
                message += b"\x18\x05"  # its kind: unused
        assert len(message) < 128 or tag != 0x0A
        out += model[at:at + 1] + (bytes([len(message)]) if tag == 0x0A else model[at + 1:begin]) + message
        at = begin + size
    return out


def golden(path, texts):
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [{"text": text, "ids": processor.encode(text), "decoded": processor.decode(processor.encode(text))}
            for text in texts]


def main():
    draw = random.Random(3)
    words = words_of(draw)
    sentences = corpus(draw, words)
    texts = ["", " ", "hello world", "  a  b "] + [odd_text(draw, words) for _ in range(60)]
    check = sys.argv[1:] == ["--check"]
    FOLDER.mkdir(exist_ok=True)
    for name, options in CASES.items():
        if not check:
            model = train(sentences, options)
            (FOLDER / f"{name}.model").write_bytes(with_unused(model) if name.endswith("_unused") else model)
    found = {name: golden(FOLDER / f"{name}.model", texts) for name in CASES}
    path = FOLDER / "golden.json"
    if check:
        assert json.loads(path.read_text()) == found, "SentencePiece gives other ids now"
        print("golden.json is the same")
    else:
        path.write_text(json.dumps(found, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
