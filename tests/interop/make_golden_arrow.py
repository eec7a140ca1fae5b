"""Writes small Parquet and Arrow files, as pyarrow and Hugging Face's datasets write them.

    python tests/interop/make_golden_arrow.py tests/unit/data/golden/arrow

Takes pyarrow, pillow and datasets. Files of texts hold eight rows: a text of good, bad and film, a
label that is a ClassLabel of bad and good in those that datasets writes, and a score. Row 5 of
`nulls.parquet` has no text. `selected` is what datasets 1 and 2 left of the rows 6, 0 and 3. Those
of images hold four squares of one colour, those of tokens three lists, padded in `padded`.
"""

import json

import pathlib
import shutil
import sys

import datasets
import PIL.Image
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


def selected(folder):
    """As save_to_disk left a selection whose indices were not made flat."""
    dataset().save_to_disk(str(folder), num_shards=2)
    indices = pa.table({"indices": pa.array([6, 0, 3], pa.uint64())})
    with pa.ipc.new_stream(folder / "indices.arrow", indices.schema) as sink:
        sink.write_table(indices)
    state = json.loads((folder / "state.json").read_text())
    state["_indices_files"] = [{"filename": "indices.arrow"}]
    (folder / "state.json").write_text(json.dumps(state))


def images():
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["dark", "light"])})
    squares = [PIL.Image.new("RGB", (4, 4), (grey, grey, grey + 5)) for grey in (0, 250, 10, 240)]
    return datasets.Dataset.from_dict({"image": squares, "label": [0, 1, 0, 1]}, features=features)


def tokens():
    return datasets.Dataset.from_dict({
        "input_ids": [[5, 6, 7], [8], [9, 3, 4, 5]],
        "labels": [[-100, 6, 7], [8], [-100, -100, 4, 5]],
        "label": [1, 0, 1],
    }, features=datasets.Features({"input_ids": datasets.List(datasets.Value("int32")),
                                   "labels": datasets.List(datasets.Value("int64")),
                                   "label": datasets.ClassLabel(names=["no", "yes"])}))


TAGS = ["O", "B-PER", "I-PER", "B-LOC"]


def tagged():
    """Words with tags, and texts with several labels; class 2 of the tags has no word."""
    features = datasets.Features({
        "text": datasets.Value("string"),
        "labels": datasets.List(datasets.ClassLabel(names=["joy", "anger", "fear"])),
        "tokens": datasets.List(datasets.Value("string")),
        "ner_tags": datasets.List(datasets.ClassLabel(names=TAGS)),
    })
    return datasets.Dataset.from_dict({
        "text": ["good film", "bad film", "good"], "labels": [[0], [1, 0], []],
        "tokens": [["good", "film"], ["bad"], ["film", "bad", "good"]], "ner_tags": [[1, 0], [3], [0, 3, 1]],
    }, features=features)


def with_features(rows, features):
    """Rows with the metadata of older versions of datasets."""
    return rows.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def older_tagged():
    """The features before datasets 4, as Sequence, and before datasets 1.2, as lists of one feature."""
    rows = pa.table({"tokens": [["good", "film"], ["bad"]], "ner_tags": [[1, 0], [3]]})
    names = {"num_classes": 4, "names": TAGS, "id": None, "_type": "ClassLabel"}
    words = {"feature": {"dtype": "string", "id": None, "_type": "Value"}, "length": -1, "id": None, "_type": "Sequence"}
    sequence = {"feature": names, "length": -1, "id": None, "_type": "Sequence"}
    return {"tagged_sequence": with_features(rows, {"tokens": words, "ner_tags": sequence}),
            "tagged_list": with_features(rows, {"tokens": [words["feature"]], "ner_tags": [names]})}


def refused():
    """Values that no dataset takes: an image without its bytes, and a number beyond 64 bits with a sign."""
    image = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    return pa.table({"image": pa.array([{"bytes": None, "path": "a.png"}], image),
                     "ids": pa.array([[7, 2**63]], pa.list_(pa.uint64()))})


def drafts():
    """Columns for `accel-run new` that are read from other files only."""
    talk = [{"role": "user", "content": "good film"}, {"role": "assistant", "content": "bad film"}]
    return {"talks": pa.table({"messages": [talk] * 8}),
            "pairs": pa.table({"prompt": TEXTS, "completion": TEXTS}),
            "numbers": pa.table({"score": SCORES, "label": LABELS, "seen": pa.array(range(8), pa.timestamp("s"))})}


def padded():
    """Tokens with padding and its mask: after the tokens, and before them."""
    right = {"input_ids": [[5, 6, 7, 0], [4, 0, 0, 0], [1, 2, 3, 4]],
             "attention_mask": pa.array([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]], pa.list_(pa.int8())),
             "labels": [[-100, 6, 7, -100], [4, -100, -100, -100], [1, 2, 3, 4]]}
    left = {"input_ids": [[0, 0, 5, 6]], "attention_mask": [[0, 0, 1, 1]]}
    return {"padded": pa.table(right), "padded_left": pa.table(left)}


def main():
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pq.write_table(table(), folder / "plain.parquet", row_group_size=3, compression="zstd")
    with pa.ipc.new_file(folder / "file.arrow", table().schema) as sink:
        sink.write_table(table(), max_chunksize=3)
    without = TEXTS[:5] + [None] + TEXTS[6:]
    pq.write_table(pa.table({"text": without, "label": LABELS}), folder / "nulls.parquet")
    pq.write_table(refused(), folder / "refused.parquet")
    dataset().save_to_disk(str(folder / "saved"), num_shards=2)
    splits = datasets.DatasetDict({"train": dataset().select(range(6)), "test": dataset().select(range(6, 8))})
    splits.save_to_disk(str(folder / "splits"))
    (folder / "hub").mkdir()
    for name, rows in {"train-00000-of-00002": range(3), "train-00001-of-00002": range(3, 6),
                       "test-00000-of-00001": range(6, 8)}.items():
        dataset().select(rows).to_parquet(str(folder / "hub" / f"{name}.parquet"))
    selected(folder / "selected")
    tagged().to_parquet(str(folder / "tagged.parquet"))
    for name, made in {"images": images(), "tokens": tokens()}.items():
        made.save_to_disk(str(folder / name))
        made.to_parquet(str(folder / f"{name}.parquet"))
    for name, rows in {**drafts(), **padded(), **older_tagged()}.items():
        pq.write_table(rows, folder / f"{name}.parquet")


if __name__ == "__main__":
    main()
