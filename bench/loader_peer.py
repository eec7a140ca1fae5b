"""A peer of `loader.py` at work.   loader_peer.py {draw_images,draw_parquet,jpeg,texts,tokens,csv,parquet} SIZES

SIZES is JSON (see loader.py). draw_images and draw_parquet write what jpeg and parquet read; the others print, as JSON,
how many samples, lines or tokens came in how many seconds and CPU seconds.
"""

import json
import random
import resource
import sys
import time
from pathlib import Path

CLASSES = 4


def cpu_seconds(of):
    used = resource.getrusage(of)
    return used.ru_utime + used.ru_stime


class Watch:
    def __init__(self):
        self.wall, self.cpu = time.perf_counter(), cpu_seconds(resource.RUSAGE_SELF)

    def spent(self, items):
        """Of this process alone."""
        return {"seconds": time.perf_counter() - self.wall, "cpu": cpu_seconds(resource.RUSAGE_SELF) - self.cpu,
                "items": items}


def draw_images(sizes):
    from PIL import Image, ImageFilter

    draw = random.Random(0)
    for i in range(sizes["images"]):
        small = Image.frombytes("RGB", (40, 30), draw.randbytes(40 * 30 * 3))
        path = Path("images") / str(i % CLASSES) / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        small.resize((500, 375)).filter(ImageFilter.GaussianBlur(2)).save(path, quality=90)
    return None


def jpeg(sizes):
    import numpy
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    class Folder(Dataset):
        def __init__(self):
            self.paths = sorted(Path("images").glob("*/*.jpg"))

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, i):
            image = Image.open(self.paths[i]).convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)
            pixels = torch.from_numpy(numpy.asarray(image, numpy.float32)).permute(2, 0, 1) / 255
            return pixels, int(self.paths[i].parent.name)

    torch.set_num_threads(1)
    given = iter(DataLoader(Folder(), sizes["batch"], shuffle=True, num_workers=sizes["workers"], drop_last=True))
    first = len(next(given)[0])
    watch, count = Watch(), 0
    for pixels, _ in given:
        count += len(pixels)
    spent = watch.spent(count)
    del given  # waits for the workers, whose CPU time is of all batches
    spent["cpu"] += cpu_seconds(resource.RUSAGE_CHILDREN) * count / (first + count)
    return spent


def texts(sizes):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file("tokenizer/tokenizer.json")
    tokenizer.enable_truncation(128)
    watch = Watch()
    lines = [json.loads(line)["text"] for line in open("texts.jsonl")]
    ids = [encoding.ids for encoding in tokenizer.encode_batch(lines)]
    return watch.spent(len(ids))


def tokens(sizes):
    import numpy
    import torch

    data = numpy.memmap("tokens.bin", numpy.uint16, "r")
    context = sizes["context"]
    draw = numpy.random.default_rng(0)
    watch = Watch()
    for _ in range(sizes["windows"]):
        places = draw.integers(0, len(data) - context - 1, sizes["batch"])
        torch.stack([torch.from_numpy(data[i : i + context].astype(numpy.int64)) for i in places])
        torch.stack([torch.from_numpy(data[i + 1 : i + 1 + context].astype(numpy.int64)) for i in places])
    return watch.spent(sizes["windows"] * sizes["batch"] * context)


def draw_parquet(sizes):
    import pyarrow
    from pyarrow import csv, json as lines, parquet

    texts = lines.read_json("texts.jsonl")
    table = csv.read_csv("rows.csv").slice(0, sizes["lines"])
    many = (len(texts) - 1) // len(table) + 1  # there may be more lines than rows
    table = pyarrow.concat_tables([table] * many).slice(0, len(texts))
    parquet.write_table(table.append_column("text", texts["text"]), "rows.parquet")
    return None


def csv(sizes):
    import pandas
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    watch, count = Watch(), 0
    frame = pandas.read_csv("rows.csv", usecols=[*sizes["numbers"], "label"])
    features = torch.from_numpy(frame[sizes["numbers"]].to_numpy("float32"))
    labels = torch.from_numpy(frame["label"].astype("category").cat.codes.to_numpy("int64"))
    for batch, _ in DataLoader(TensorDataset(features, labels), sizes["table_batch"], shuffle=True):
        count += len(batch)
    return watch.spent(count)


def parquet(sizes):
    import torch
    from pyarrow.parquet import read_table
    from tokenizers import Tokenizer
    from torch.nn.utils.rnn import pad_sequence
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_file("tokenizer/tokenizer.json")
    tokenizer.enable_truncation(128)
    watch, count = Watch(), 0
    table = read_table("rows.parquet", columns=["text", "label"])
    classes = {name: i for i, name in enumerate(sorted(set(table["label"].to_pylist())))}
    ids = [torch.tensor(encoding.ids) for encoding in tokenizer.encode_batch(table["text"].to_pylist())]
    samples = list(zip(ids, [classes[label] for label in table["label"].to_pylist()]))

    def collate(chosen):
        return (pad_sequence([ids for ids, _ in chosen], batch_first=True), torch.tensor([label for _, label in chosen]),
                torch.tensor([len(ids) for ids, _ in chosen]))

    for batch, _, _ in DataLoader(samples, sizes["table_batch"], shuffle=True, collate_fn=collate):
        count += len(batch)
    return watch.spent(count)


KINDS = {kind.__name__: kind for kind in (draw_images, draw_parquet, jpeg, texts, tokens, csv, parquet)}

if __name__ == "__main__":
    print(json.dumps(KINDS[sys.argv[1]](json.loads(sys.argv[2]))))
