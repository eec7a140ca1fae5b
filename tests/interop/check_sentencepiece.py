"""accel-run gives the ids and texts that SentencePiece gives, for many odd texts and kinds of models.

    python tests/interop/check_sentencepiece.py ACCEL_RUN [COUNT] [SEED]
"""

import json
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import sentencepiece

import make_sentencepiece as make

ASSIGNED = [chr(c) for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]

KINDS = ({}, {"normalization_rule_name": "identity"}, {"normalization_rule_name": "nfkc"},
         {"normalization_rule_name": "nmt_nfkc_cf", "user_defined_symbols": ["<mask>", "<sep>", "aa", "▁www"]},
         {"add_dummy_prefix": False}, {"remove_extra_whitespaces": False}, {"treat_whitespace_as_suffix": True},
         {"control_symbols": ["<cls>"], "split_by_whitespace": False}, {"unk_surface": "??", "pad_id": 3})


def texts_of(draw, words, count):
    out = ["", " ", "   ", " a  b "] + make.corpus(draw, words)[:count // 10]
    while len(out) < count:
        text = make.odd_text(draw, words)
        out.append(text + "".join(draw.choices(ASSIGNED, k=draw.randint(0, 3))))
    return out


def accel_ids(binary, model, texts):
    """Of each text the ids."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as lines:
        lines.write("".join(json.dumps(text) + "\n" for text in texts))
        lines.flush()
        done = subprocess.run([binary, "tokenizer", "encode", model, "--file", lines.name, "--json-lines"],
                              capture_output=True, text=True, check=True)
    return [[int(id) for id in line.split()] for line in done.stdout.split("\n")[:-1]]


def accel_text(binary, model, ids):
    done = subprocess.run([binary, "tokenizer", "decode", model, *map(str, ids)], capture_output=True, text=True,
                          check=True)
    return done.stdout


def main():
    binary = Path(sys.argv[1]).resolve()
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    words = make.words_of(draw)
    sentences, texts = make.corpus(draw, words), texts_of(draw, words, count)
    compared = 0
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "x.model"
        for kind in ("unigram", "bpe"):
            for fallback in (False, True):
                for options in KINDS:
                    model.write_bytes(make.train(sentences, {
                        "model_type": kind, "vocab_size": 700, "byte_fallback": fallback, "hard_vocab_limit": False,
                        "normalization_rule_name": "nmt_nfkc", **options}))
                    theirs = sentencepiece.SentencePieceProcessor(model_file=str(model))
                    for text, ids in zip(texts, accel_ids(binary, model, texts), strict=True):
                        assert ids == theirs.encode(text), (kind, fallback, options, text, ids, theirs.encode(text))
                        compared += 1
                    ids = [id for text in draw.choices(texts, k=4) for id in theirs.encode(text)] + [0]
                    text = accel_text(binary, model, ids)
                    assert text == theirs.decode(ids) + "\n", (kind, fallback, options, ids, text)
    print(f"{compared} texts have SentencePiece's ids")


if __name__ == "__main__":
    main()
