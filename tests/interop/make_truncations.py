"""Writes tests/unit/data/golden/truncation.json: what the tokenizers package makes of texts that are too long, for every
truncation that a tokenizer.json may ask for; with --check compares it.
"""

import itertools
import json
import pathlib
import sys

import tokenizers
from tokenizers import models, pre_tokenizers, processors

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests/unit/data/golden/truncation.json"

WORDS = "a b c d e f g h".split()
TEXTS = [("a",), ("a b c d e f g",), ("a b", "c d e f g h"), ("a b c d e f", "g h"), ("a b c d e", "d e f g h"),
         ("a b c d", "e f g h"), ("a", "b")]


def tokenizer():
    vocab = {token: id for id, token in enumerate(["[CLS]", "[SEP]", "[PAD]", *WORDS])}
    made = tokenizers.Tokenizer(models.WordLevel(vocab))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 0), ("[SEP]", 1)])
    return made


def encoded(made, texts):
    """None where the package refuses to cut."""
    try:
        encoding = made.encode(*texts)
    except Exception:  # the package has no class for it
        return None
    return {"ids": encoding.ids, "types": encoding.type_ids}


def goldens():
    cases = []
    for strategy, direction, length in itertools.product(("longest_first", "only_first", "only_second"),
                                                         ("right", "left"), (4, 5, 6, 7, 10)):
        made = tokenizer()
        made.enable_truncation(length, strategy=strategy, direction=direction)
        texts = [{"texts": list(texts), "tokens": encoded(made, texts)} for texts in TEXTS]
        cases.append({"file": json.loads(made.to_str()), "texts": texts})
    return cases


def main():
    text = json.dumps(goldens(), separators=(",", ":")) + "\n"
    if sys.argv[1:] == ["--check"]:
        assert GOLDEN.read_text() == text, f"{GOLDEN.name} is another now"
        print(f"{GOLDEN.name} is the same")
    else:
        GOLDEN.write_text(text)


if __name__ == "__main__":
    main()
