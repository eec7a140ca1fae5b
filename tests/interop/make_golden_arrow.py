"""Writes small Parquet and Arrow files, as pyarrow and Hugging Face's datasets write them.

    python tests/interop/make_golden_arrow.py tests/unit/data/golden/arrow

Takes pyarrow and datasets. Every file holds eight rows: a text of good, bad and film, a label that
is a ClassLabel of bad and good in those that datasets writes, and a score. Row 5 of `nulls.parquet`
has no text.
"""

import pathlib
import shutil
import sys

import datasets
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

TEXTS = ["good film", "bad film", "good", "bad", "film good good", "bad bad film", "good film film", "bad"]
LABELS = [1, 0, 1, 0, 1, 0, 1, 0]
SCORES = [0.5, -2.0, 1e-3, 0.1, 3.0, 1.5, -0.25, 7.0]


def table():
    return pa.table({
        "nested": pa.array([[i] for i in range(8)], pa.list_(pa.int32())),
        "text": TEXTS,
        "coded": pa.array(TEXTS).dictionary_encode(),
        "large": pa.array(TEXTS, pa.large_string()),
        "label": pa.array(LABELS, pa.int8()),
        "score": SCORES,
        "half": pa.array(SCORES, pa.float32()),
        "truth": [label == 1 for label in LABELS],
    })


def dataset():
    features = datasets.Features({
        "text": datasets.Value("string"),
        "label": datasets.ClassLabel(names=["bad", "good"]),
        "score": datasets.Value("float64"),
    })
    return datasets.Dataset.from_dict({"text": TEXTS, "label": LABELS, "score": SCORES}, features=features)


def main():
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pq.write_table(table(), folder / "plain.parquet", row_group_size=3, compression="zstd")
    with pa.ipc.new_file(folder / "file.arrow", table().schema) as sink:
        sink.write_table(table(), max_chunksize=3)
    without = TEXTS[:5] + [None] + TEXTS[6:]
    pq.write_table(pa.table({"text": without, "label": LABELS}), folder / "nulls.parquet")
    dataset().save_to_disk(str(folder / "saved"), num_shards=2)
    splits = datasets.DatasetDict({"train": dataset().select(range(6)), "test": dataset().select(range(6, 8))})
    splits.save_to_disk(str(folder / "splits"))
    (folder / "hub").mkdir()
    for name, rows in {"train-00000-of-00002": range(3), "train-00001-of-00002": range(3, 6),
                       "test-00000-of-00001": range(6, 8)}.items():
        dataset().select(rows).to_parquet(str(folder / "hub" / f"{name}.parquet"))


if __name__ == "__main__":
    main()
