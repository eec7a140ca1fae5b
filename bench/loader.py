"""How fast data comes, with nothing done to it: JPEG images, texts made into tokens, windows of mapped tokens.

The peers are PIL in a DataLoader of as many workers, the tokenizers package, and numpy's memmap.
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
WORDS = 2000
FULL = {"images": 384, "lines": 20000, "tokens": 8_000_000, "windows": 400}
SHORT = {"images": 64, "lines": 200, "tokens": 200_000, "windows": 10}

RECIPE = """
model: MODEL
data: {train: DATA, loader: {workers: WORKERS}}
train: {until: 1 epochs, batch: 16}
"""


def write_texts(folder, count):
    """Lines of words whose frequencies fall as in a language, 120 letters or so each."""
    draw = random.Random(0)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(draw.choices(letters, range(26, 0, -1), k=draw.randint(2, 9))) for _ in range(WORDS)]
    weights = [1 / (rank + 1) for rank in range(WORDS)]
    lines = [" ".join(draw.choices(words, weights, k=20)) for _ in range(count)]
    (folder / "words.txt").write_text("\n".join(lines) + "\n")
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": line, "label": i % 2}) + "\n"
                                                for i, line in enumerate(lines)))


class Loaders:
    def __init__(self, words, folder):
        self.words, self.folder = words, folder
        self.sizes = SHORT if words.short else FULL
        write_texts(folder, self.sizes["lines"])
        call([words.accel_run, "tokenizer", "train", "words.txt", "--model", "wordpiece", "--vocab-size", "2000", "--out",
              "tokenizer"], folder, THREADS)
        draw = random.Random(0)
        array("H", draw.choices(range(50257), k=self.sizes["tokens"])).tofile((folder / "tokens.bin").open("wb"))
        if words.python:
            call([words.python, HERE / "loader_peer.py", "images", json.dumps(self.sizes)], folder, THREADS)

    def output(self, command):
        done = subprocess.run([str(word) for word in command], cwd=self.folder, env=environment(THREADS), check=True,
                              text=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout.splitlines()[-1])

    def ours(self, model, data, workers=0, windows=0):
        values = {"MODEL": model, "DATA": data, "WORKERS": workers}
        recipe = RECIPE
        for name, value in values.items():
            recipe = recipe.replace(name, str(value))
        (self.folder / "loader.yaml").write_text(recipe)
        return self.output([program(self.words, "loader_speed"), "loader.yaml", windows])

    def theirs(self, kind, workers=0):
        sizes = dict(self.sizes, batch=BATCH, context=CONTEXT, workers=workers)
        return self.output([self.words.python, HERE / "loader_peer.py", kind, json.dumps(sizes)])["per_second"]

    def images(self, workers):
        windows = self.sizes["images"] // BATCH - 1
        return self.ours("{type: linear}", "{type: image_folder, path: images, size: [224, 224]}", workers,
                         windows)["samples_per_second"]

    def texts(self):
        data = "{type: jsonl, path: texts.jsonl, target: label, tokenizer: tokenizer}"
        return self.sizes["lines"] / self.ours("{type: bert, num_layers: 1, num_heads: 1, hidden_size: 8}", data)["open"]

    def tokens(self):
        data = f"{{type: tokens, path: tokens.bin, vocab_size: 50257, max_seq_len: {CONTEXT}}}"
        speed = self.ours("{type: gpt, num_layers: 1, num_heads: 1, hidden_size: 8}", data, 0, self.sizes["windows"])
        return speed["samples_per_second"] * CONTEXT


def run(words, folder):
    loaders = Loaders(words, folder)
    cases = {"texts made into tokens, lines/s": (loaders.texts, lambda: loaders.theirs("texts")),
             "mapped tokens/s": (loaders.tokens, lambda: loaders.theirs("tokens"))}
    if words.python:  # which draws the images
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
        median = statistics.median(found["accel-run"])
        line = f"  {name:34}{median:14.0f}"
        if found["peer"]:
            peer = statistics.median(found["peer"])
            line += f"  peer {peer:14.0f}  accel-run is {median / peer:5.2f}x as fast"
        print(line, flush=True)
    return {"rows": rows}
