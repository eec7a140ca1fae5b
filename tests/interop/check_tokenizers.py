#!/usr/bin/env python3
"""accel-run gives the ids that the Python package gives, for many odd texts; what it trains loads there
and gives equal ids too. Ends with how fast both are.   check_tokenizers.py ACCEL_RUN [COUNT] [SEED]
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one core, as accel-run takes
from tokenizers import Tokenizer  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/unit/text/golden"
PIECES = ["<mask>", "<s>", "</s>", "[MASK]", "<extra_id_0>", "<|begin_of_text|>", "<|endoftext|>", "Word", " ", "  ",
          "\n", "\r\n", "\t", "'s", "'LL", "123", "ﬁ", "▁", "e\u0301", "\u200d", "the", "ing", "-", "...", "<0x41>"]
# Later characters are in none of the tables, or in those of one side only.
ASSIGNED = [c for c in range(1, 0x110000)
            if unicodedata.category(chr(c)) not in ("Cn", "Cs") and unicodedata.unidata_version < "15"] or [
    c for c in range(1, 0x110000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs")]
NEAR = [c for c in ASSIGNED if c < 0x3000]


def odd_text(rng, lines):
    kind = rng.random()
    if kind < 0.3:
        line = rng.choice(lines)
        start = rng.randrange(len(line) + 1)
        return line[start:start + rng.randrange(1, 80)]
    if kind < 0.6:
        return "".join(chr(rng.choice(NEAR)) if rng.random() < 0.6 else rng.choice(PIECES)
                       for _ in range(rng.randrange(1, 20)))
    if kind < 0.8:
        return "".join(chr(rng.choice(ASSIGNED)) for _ in range(rng.randrange(1, 12)))
    return "".join(rng.choice(PIECES) if rng.random() < 0.5 else chr(rng.randrange(32, 127))
                   for _ in range(rng.randrange(1, 30)))


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"exit {done.returncode}: {words}\n{done.stderr}")
    return done.stdout


def ids_of(accel_run, folder, file, *flags):
    lines = run(accel_run, "tokenizer", "encode", folder, "--file", file, *flags).split("\n")
    return [[int(word) for word in line.split()] for line in lines[:-1]]


def compare(accel_run, folder, texts, file):
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ours = ids_of(accel_run, folder, file, "--json-lines")
    assert len(ours) == len(texts), (folder, len(ours), len(texts))
    wrong = [text for text, ids in zip(texts, ours) if theirs.encode(text).ids != ids]
    for text in sorted(wrong, key=len)[:5]:
        print(f"{folder.name}: {ascii(text)}")
    print(f"{folder.name}: {len(texts)} texts, {len(wrong)} differ")
    return len(wrong)


def race(accel_run, folder, corpus, empty):
    """Both encode the same lines on one core; loading and starting are taken off, printing is not."""
    lines = corpus.read_text().split("\n")
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    start = time.perf_counter()
    for line in lines:
        theirs.encode(line).ids
    python = time.perf_counter() - start
    took = []
    for file in (empty, corpus):
        start = time.perf_counter()
        run(accel_run, "tokenizer", "encode", folder, "--file", file)
        took.append(time.perf_counter() - start)
    megabytes = corpus.stat().st_size / 1e6
    print(f"{folder.name}: {megabytes / (took[1] - took[0]):.1f} MB/s, the Python package {megabytes / python:.1f} MB/s")


def main():
    accel_run = Path(sys.argv[1]).resolve()
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    sources = sorted((ROOT / "docs").glob("**/*.md")) + sorted((ROOT / "core").glob("*.cpp"))
    lines = [line for path in sources for line in path.read_text().split("\n")]
    lines += json.loads((GOLDEN / "texts.json").read_text())
    texts = [odd_text(rng, lines) for _ in range(count)]
    with tempfile.TemporaryDirectory() as text:
        scratch = Path(text)
        file, corpus, empty = scratch / "texts.jsonl", scratch / "corpus.txt", scratch / "empty.txt"
        file.write_text("".join(json.dumps(text) + "\n" for text in texts))
        corpus.write_text("\n".join(path.read_text() for path in sources) * 4)
        empty.write_text("")
        folders = sorted(path.parent for path in GOLDEN.glob("*/tokenizer.json"))
        for model in ("bpe", "wordpiece"):
            folders.append(scratch / f"trained_{model}")
            run(accel_run, "tokenizer", "train", corpus, "--model", model, "--vocab-size", 4000, "--out", folders[-1])
        wrong = sum(compare(accel_run, folder, texts, file) for folder in folders)
        for folder in folders:
            race(accel_run, folder, corpus, empty)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
