"""A peer of `loader.py` at work.   loader_peer.py {images,jpeg,texts,tokens} SIZES

SIZES is JSON (see loader.py). images draws what jpeg reads; the others print how many samples, lines or tokens
came a second, as JSON.
"""

import json
import random
import sys
import time
from pathlib import Path

CLASSES = 4


def images(sizes):
    from PIL import Image, ImageFilter

    draw = random.Random(0)
    for i in range(sizes["images"]):
        small = Image.frombytes("RGB", (40, 30), draw.randbytes(40 * 30 * 3))
        path = Path("images") / str(i % CLASSES) / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        small.resize((500, 375)).filter(ImageFilter.GaussianBlur(2)).save(path, quality=90)
    return 0


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
    next(given)
    start, count = time.perf_counter(), 0
    for pixels, _ in given:
        count += len(pixels)
    return count / (time.perf_counter() - start)


def texts(sizes):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file("tokenizer/tokenizer.json")
    tokenizer.enable_truncation(128)
    start = time.perf_counter()
    lines = [json.loads(line)["text"] for line in open("texts.jsonl")]
    ids = [encoding.ids for encoding in tokenizer.encode_batch(lines)]
    return len(ids) / (time.perf_counter() - start)


def tokens(sizes):
    import numpy
    import torch

    data = numpy.memmap("tokens.bin", numpy.uint16, "r")
    context = sizes["context"]
    draw = numpy.random.default_rng(0)
    start = time.perf_counter()
    for _ in range(sizes["windows"]):
        places = draw.integers(0, len(data) - context - 1, sizes["batch"])
        torch.stack([torch.from_numpy(data[i : i + context].astype(numpy.int64)) for i in places])
        torch.stack([torch.from_numpy(data[i + 1 : i + 1 + context].astype(numpy.int64)) for i in places])
    return sizes["windows"] * sizes["batch"] * context / (time.perf_counter() - start)


KINDS = {"images": images, "jpeg": jpeg, "texts": texts, "tokens": tokens}

if __name__ == "__main__":
    print(json.dumps({"per_second": KINDS[sys.argv[1]](json.loads(sys.argv[2]))}))
