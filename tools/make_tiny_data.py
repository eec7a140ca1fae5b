#!/usr/bin/env python3
"""Makes the few kilobytes of data that recipes/tiny reads.   make_tiny_data.py FOLDER

Everything follows from integer arithmetic, so that each run writes the same bytes.
"""

import json
import pathlib
import struct
import sys
import zlib


def pseudo_random(state):
    """The high bits of a 64-bit linear congruential generator (Knuth's MMIX constants)."""
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


def table(separator, draw):
    """Flowers of two kinds that differ in the size of their petals."""
    lines = [separator.join(("petal", "sepal", "colour", "kind"))]
    for _ in range(96):
        kind = next(draw) % 2
        petal = 10 + 15 * kind + next(draw) % 10
        colour = ("red", "white", "blue")[next(draw) % 3]
        lines.append(separator.join((f"{petal / 10}", f"{(20 + next(draw) % 30) / 10}", colour,
                                     ("daisy", "rose")[kind])))
    return "\n".join(lines) + "\n"


def npy(kind, shape, values, code):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
    return start + header.encode() + struct.pack(f"<{len(values)}{code}", *values)


def chunk(name, content):
    return (struct.pack(">I", len(content)) + name + content
            + struct.pack(">I", zlib.crc32(name + content)))


def png(side, pixel):
    """An RGB picture; pixel(x, y) gives three bytes."""
    rows = b"".join(b"\x00" + b"".join(bytes(pixel(x, y)) for x in range(side)) for y in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_pictures(folder, draw):
    """Upright and lying bars."""
    for kind in ("lying", "upright"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for i in range(8):
            at, colour = 3 + next(draw) % 8, [64 + next(draw) % 192 for _ in range(3)]
            place = (lambda x, y: y) if kind == "lying" else (lambda x, y: x)
            bar = lambda x, y: colour if at <= place(x, y) < at + 3 else (0, 0, 0)
            (folder / kind / f"{i}.png").write_bytes(png(16, bar))


def talks(count, draw):
    """Short conversations; the second answer follows from the first question."""
    lines = []
    for _ in range(count):
        at, what = next(draw) % 10, ("fish", "bird", "cat", "dog")[next(draw) % 4]
        turns = (f"one more than {at}?", str(at + 1), f"a {what}?", f"{at} and a {what}.")
        messages = [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]
        lines.append(json.dumps({"messages": messages}))
    return "\n".join(lines) + "\n"


def answers(count, length, draw):
    """Sequences of tokens whose answer stands between the tokens 1 and 2, and its first and last place."""
    sequences, spans = [], []
    for _ in range(count):
        row = [3 + next(draw) % 17 for _ in range(length)]
        first = 2 + next(draw) % (length - 6)
        last = first + next(draw) % 3
        row[first - 1], row[last + 1] = 1, 2
        sequences += row
        spans += [first, last]
    return sequences, spans


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = pseudo_random(7)
    (folder / "flowers.csv").write_text(table(",", draw))
    (folder / "flowers.tsv").write_text(table("\t", draw))
    points = [(next(draw) % 2001 - 1000) / 1000 for _ in range(64 * 4)]
    sums = [sum(points[i : i + 4]) for i in range(0, len(points), 4)]
    (folder / "points.npy").write_bytes(npy("<f4", (64, 4), points, "f"))
    (folder / "sums.npy").write_bytes(npy("<f4", (64,), sums, "f"))
    tokens = [(i * i + next(draw) % 2) % 17 for i in range(1024)]
    (folder / "tokens.bin").write_bytes(struct.pack("<1024H", *tokens))
    rhyme = "one, two, buckle my shoe; three, four, knock at the door; "
    (folder / "rhyme.txt").write_text(rhyme * 24 + "\n")
    write_pictures(folder / "bars", draw)
    # talks/tokenizer.json is what `accel-run tokenizer train talks.jsonl --vocab-size 300` makes.
    (folder / "talks.jsonl").write_text(talks(80, draw))
    (folder / "talks_eval.jsonl").write_text(talks(20, draw))
    sequences, spans = answers(160, 14, draw)
    (folder / "answers.npy").write_bytes(npy("<i2", (160, 14), sequences, "h"))
    (folder / "answer_spans.npy").write_bytes(npy("<i2", (160, 1, 2), spans, "h"))


if __name__ == "__main__":
    main()
