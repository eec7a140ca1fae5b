#!/usr/bin/env python3
"""'accel-run prepare': shards of a corpus, parts of it by array jobs, training on them, and what is refused.

    prepare.py ACCEL_RUN
"""

import array
import json
import os
import subprocess
import sys

import runs

WORDS = "she sells sea shells by the shore and the shells she sells are sea shells for sure".split()

RECIPE = """model: {type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16}
task: causal_lm
data: {train: {type: tokens, path: corpus, max_seq_len: 16}}
optimizer: {type: adamw, lr: 0.01}
train: {until: 6 steps, batch: 8}
checkpoint: {every: 3 steps}
"""


def write_corpus(folder):
    """400 documents in four files of different kinds."""
    (folder / "texts/deep").mkdir(parents=True)
    documents = [" ".join(WORDS[(i * 7 + j) % len(WORDS)] for j in range(3 + i % 5)) + f" {i}" for i in range(400)]
    rows = [json.dumps({"text": text}) + "\n" for text in documents]
    (folder / "texts/a.jsonl").write_text("".join(rows[:100]))
    (folder / "texts/deep/b.jsonl").write_text("".join(rows[100:200]))
    (folder / "texts/c.csv").write_text("id,text\n" + "".join(f"{i},{t}\n" for i, t in enumerate(documents[200:300])))
    (folder / "texts/d.txt").write_text("".join(t + "\n" for t in documents[300:]))
    return documents


def tokens_in(folder):
    """The documents of a corpus's folder, or of its parts, by their index."""
    folders = sorted(folder.glob("part_*")) or [folder]
    ids = []
    for each in folders:
        index = json.loads((each / "tokens.json").read_text())
        for shard in index["shards"]:
            part = array.array("H" if index["dtype"] == "uint16" else "I")
            part.frombytes((each / shard["file"]).read_bytes())
            assert len(part) == shard["tokens"], shard
            ids.extend(part)
    return ids


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        documents = write_corpus(scratch.path)

        def call(*words, environment=None):
            done = subprocess.run([scratch.binary, *words], cwd=scratch.path, text=True, capture_output=True, check=False,
                                  env={**os.environ, **(environment or {})})
            return done.returncode, done.stdout, done.stderr

        call("tokenizer", "train", "texts/d.txt", "--vocab-size", "300", "--out", "words")
        code, said, errors = call("prepare", "texts", "--tokenizer", "words", "--out", "corpus", "--shard-size", "1 KiB")
        report.check("a corpus is prepared", code == 0 and said.startswith("corpus: 400 documents, "), said + errors)
        ids = tokens_in(scratch.path / "corpus")
        end = next(line.split()[1] for line in call("tokenizer", "inspect", "words")[1].splitlines()
                   if line.startswith("eos"))
        texts, document = [], []
        for token in ids:
            if str(token) == end:
                texts.append(call("tokenizer", "decode", "words", *map(str, document))[1][:-1] if len(texts) < 5 else "")
                document = []
            else:
                document.append(token)
        report.check("each document once, with its end token", len(texts) == 400 and not document, len(texts))
        places = [documents.index(text) for text in texts[:5]]
        report.check("in another order", places != sorted(places), places)

        code, said, errors = call("prepare", "texts", "--tokenizer", "words", "--out", "corpus", "--shard-size", "1 KiB")
        report.check("the same again does nothing", code == 0 and said.endswith("of the same files and options\n"), said)
        code, said, errors = call("prepare", "texts", "--tokenizer", "words", "--out", "corpus")
        report.check("another is refused", code == 2 and "'corpus' already exists" in errors, errors)

        (scratch.path / "job.yaml").write_text(RECIPE)
        code, said, errors = call("verify-resume", "job.yaml")
        report.check("it trains and resumes", code == 0, said + errors)

        for task in range(3):
            code, said, errors = call("prepare", "texts", "--tokenizer", "words", "--out", "parts", "--part", "auto",
                                      environment={"SLURM_ARRAY_TASK_ID": str(task + 1), "SLURM_ARRAY_TASK_MIN": "1",
                                                   "SLURM_ARRAY_TASK_COUNT": "3"})
            report.check(f"part {task} of an array job", code == 0, errors)
            if task == 1:
                code, said, errors = call("run", "job.yaml", "data.train.path=parts", "name=early")
                report.check("a missing part is named", code == 3 and "lacks 'part_00002_of_00003'" in errors
                             and "prepare it with '--part 2/3'" in errors, errors)
        report.check("parts have all documents", tokens_in(scratch.path / "parts").count(int(end)) == 400)
        code, said, errors = call("run", "job.yaml", "data.train.path=parts", "name=parts")
        report.check("and are trained on", code == 0, errors)

        for words, environment, wanted in (
                (["--part", "4/4"], {}, "there is no part 4 of 4"),
                (["--part", "x"], {}, "'--part' is 'x', not I/N, auto or auto/N"),
                (["--part", "auto"], {}, "'--part auto' is for tasks of an array job, and this is none"),
                (["--part", "auto"], {"JOB_COMPLETION_INDEX": "0"},
                 "an indexed Job of Kubernetes does not say how many tasks it has"),
                (["--part", "auto"], {"AWS_BATCH_JOB_ARRAY_INDEX": "x", "AWS_BATCH_JOB_ARRAY_SIZE": "2"},
                 "'AWS_BATCH_JOB_ARRAY_INDEX' is not a number"),
                (["--shard-size", "none"], {}, "'--shard-size' must be a size, not 'none'"),
                (["--field", "body"], {}, "body")):
            code, said, errors = call("prepare", "texts", "--tokenizer", "words", "--out", "no", *words,
                                      environment=environment)
            report.check(f"refused: {' '.join(words)} {environment}",
                         code in (2, 3) and wanted in errors and not (scratch.path / "no").exists(), errors)
        code, said, errors = call("prepare", "texts", "--tokenizer", "words", "--out", "corpus", "--part", "0/2")
        report.check("no parts in a corpus without", code == 2 and errors ==
                     "error: 'corpus' already is a corpus without parts\n  hint: give another name\n", errors)
        done = subprocess.run(["bash", "-c", 'ulimit -f 1; exec "$0" prepare texts --tokenizer words --out full',
                               scratch.binary], cwd=scratch.path, text=True, capture_output=True, check=False)
        report.check("a full disk is an error", done.returncode == 7 and "error: cannot write 'full" in done.stderr
                     and not list(scratch.path.glob("full*")), done.stderr)
        code, said, errors = call("prepare", "texts", "--tokenizer", "words", "--out", "no", "--part", "4/4")
        report.check("parts count from 0", "hint: parts are from 0 to 3" in errors, errors)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
