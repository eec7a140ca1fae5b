"""How fast data comes, with nothing done to it: JPEG images, texts made into tokens, windows of mapped tokens, tables.

The peers are PIL in a DataLoader of as many workers, the tokenizers package, numpy's memmap, and pandas and pyarrow
before a DataLoader. Tables are read for one epoch, with reading counted. Ratios are those of wall time, then those of
CPU time, which other work on the machine changes less.
"""

import json
import random
import statistics
import subprocess
from array import array

from sides import HERE, call, environment, program

THREADS = 2
BATCH = 16
WORKERS = (0, 2)
CONTEXT = 1024
TABLE_BATCH = 256
WORDS = 2000
NUMBERS = [f"x{i}" for i in range(8)]
FULL = {"images": 384, "lines": 20000, "tokens": 8_000_000, "windows": 400, "rows": 200_000}
SHORT = {"images": 64, "lines": 400, "tokens": 200_000, "windows": 10, "rows": 1000}

RECIPE = """
model: MODEL
data: {train: DATA, loader: {workers: WORKERS}}
train: {until: 1 epochs, batch: BATCH}
"""


def write_texts(folder, count, rows):
    """Lines of words whose frequencies fall as in a language, 120 letters or so each; and a table of as many `rows`:
    numbers, a short text and a class."""
    draw = random.Random(0)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(draw.choices(letters, range(26, 0, -1), k=draw.randint(2, 9))) for _ in range(WORDS)]
    weights = [1 / (rank + 1) for rank in range(WORDS)]
    lines = [" ".join(draw.choices(words, weights, k=20)) for _ in range(count)]
    (folder / "words.txt").write_text("\n".join(lines) + "\n")
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": line, "label": i % 2}) + "\n"
                                                for i, line in enumerate(lines)))
    with (folder / "rows.csv").open("w") as table:
        table.write(",".join([*NUMBERS, "note", "label"]) + "\n")
        for i in range(rows):
            values = ",".join(f"{draw.gauss(0, 10):.6g}" for _ in NUMBERS)
            table.write(f"{values},{lines[i % count][:30]},{'even' if i % 2 == 0 else 'odd'}\n")


class Loaders:
    def __init__(self, words, folder):
        self.words, self.folder = words, folder
        self.sizes = SHORT if words.short else FULL
        write_texts(folder, self.sizes["lines"], self.sizes["rows"])
        call([words.accel_run, "tokenizer", "train", "words.txt", "--model", "wordpiece", "--vocab-size", "2000", "--out",
              "tokenizer"], folder, THREADS)
        draw = random.Random(0)
        array("H", draw.choices(range(50257), k=self.sizes["tokens"])).tofile((folder / "tokens.bin").open("wb"))
        if words.python:
            for kind in ("images", "parquet"):
                call([words.python, HERE / "loader_peer.py", "draw_" + kind, json.dumps(self.sizes)], folder, THREADS)

    def output(self, command):
        done = subprocess.run([str(word) for word in command], cwd=self.folder, env=environment(THREADS), check=True,
                              text=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout.splitlines()[-1])

    def ours(self, model, data, windows, workers=0, batch=BATCH):
        values = {"MODEL": model, "DATA": data, "WORKERS": workers, "BATCH": batch}
        recipe = RECIPE
        for name, value in values.items():
            recipe = recipe.replace(name, str(value))
        (self.folder / "loader.yaml").write_text(recipe)
        return self.output([program(self.words, "loader_speed"), "loader.yaml", windows])

    def theirs(self, kind, workers=0):
        sizes = dict(self.sizes, batch=BATCH, table_batch=TABLE_BATCH, context=CONTEXT, workers=workers, numbers=NUMBERS)
        return self.output([self.words.python, HERE / "loader_peer.py", kind, json.dumps(sizes)])

    def images(self, workers):
        data = "{type: image_folder, path: images, size: [224, 224]}"
        return self.ours("{type: linear}", data, self.sizes["images"] // BATCH - 1, workers)["later"]

    def texts(self):
        data = "{type: jsonl, path: texts.jsonl, target: label, tokenizer: tokenizer}"
        found = self.ours("{type: bert, num_layers: 1, num_heads: 1, hidden_size: 8}", data, 0)["open"]
        return dict(found, items=self.sizes["lines"])

    def tokens(self):
        data = f"{{type: tokens, path: tokens.bin, vocab_size: 50257, max_seq_len: {CONTEXT}}}"
        found = self.ours("{type: gpt, num_layers: 1, num_heads: 1, hidden_size: 8}", data, self.sizes["windows"])["later"]
        return dict(found, items=found["items"] * CONTEXT)

    def epoch(self, model, data, rows):
        """Reading and all batches of one epoch."""
        return self.ours(model, data, (rows - 1) // TABLE_BATCH, batch=TABLE_BATCH)["all"]

    def csv(self):
        data = f"{{type: csv, path: rows.csv, features: [{', '.join(NUMBERS)}], target: label}}"
        return self.epoch("{type: linear}", data, self.sizes["rows"])

    def parquet(self):
        data = "{type: parquet, path: rows.parquet, text: text, target: label, tokenizer: tokenizer}"
        model = "{type: bert, num_layers: 1, num_heads: 1, hidden_size: 8}"
        return self.epoch(model, data, self.sizes["lines"])


def line_of(name, found):
    """A row of medians. `found`: by side, the items, seconds and CPU seconds of each round."""
    def per_second(side, time):
        return statistics.median(one["items"] / one[time] for one in found[side])

    line = f"  {name:40}{per_second('accel-run', 'seconds'):14.0f}"
    if not found["peer"]:
        return line
    times = [per_second("accel-run", time) / per_second("peer", time) for time in ("seconds", "cpu")]
    return line + (f"  peer {per_second('peer', 'seconds'):14.0f}  accel-run is {times[0]:5.2f}x as fast"
                   f"  ({times[1]:.2f}x in CPU time)")


def run(words, folder):
    loaders = Loaders(words, folder)
    cases = {"texts made into tokens, lines/s": (loaders.texts, lambda: loaders.theirs("texts")),
             "mapped tokens/s": (loaders.tokens, lambda: loaders.theirs("tokens")),
             "CSV read and batched, rows/s": (loaders.csv, lambda: loaders.theirs("csv"))}
    if words.python:  # which draws the images and writes the Parquet file
        cases["Parquet read, tokenized, batched, rows/s"] = (loaders.parquet, lambda: loaders.theirs("parquet"))
        for workers in WORKERS:
            cases[f"JPEG images/s, {workers} workers"] = (lambda workers=workers: loaders.images(workers),
                                                          lambda workers=workers: loaders.theirs("jpeg", workers))
    rows = {}
    for name, (ours, theirs) in cases.items():
        found = {"accel-run": [], "peer": []}
        for _ in range(words.rounds):
            found["accel-run"].append(ours())
            if words.python:
                found["peer"].append(theirs())
        rows[name] = found
        print(line_of(name, found), flush=True)
    return {"rows": rows}
