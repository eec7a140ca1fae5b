"""Reads event files of the tensorboard tracker with the real package.

Usage: check_tensorboard.py FOLDER
The folder holds what tests/unit/track/tensorboard_interop_test.cpp writes: a run of 120 steps,
killed in the middle of a record and resumed from step 100, killed again after an evaluation of that step,
and resumed once more, up to step 150.
"""

import io
import sys

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2


def load(folder):
    accumulator = event_accumulator.EventAccumulator(
        folder, size_guidance={"scalars": 0, "histograms": 0, "tensors": 0}
    )
    accumulator.Reload()
    return accumulator


def check_scalars(accumulator):
    found = [(e.step, e.value) for e in accumulator.Scalars("train/loss")]
    first_life = [(step, 1 / step) for step in range(1, 101)]
    second_life = [(step, 2 / step) for step in range(101, 151)]
    wanted = [(step, float(np.float32(value))) for step, value in first_life + second_life]
    assert found == wanted, "steps after the checkpoint are missing, doubled or stale"
    assert accumulator.Scalars("train/nan")[0].value != accumulator.Scalars("train/nan")[0].value


def check_evaluation(accumulator):
    assert [(e.step, e.value) for e in accumulator.Scalars("eval/loss")] == [(100, 0.5)], accumulator.Scalars("eval/loss")


def check_text(accumulator):
    event = accumulator.Tensors("note/text_summary")[0]
    assert event.step == 1
    assert event.tensor_proto.string_val[0].decode() == "**bold** \u00e9 \ufffd"


def check_image(accumulator):
    event = accumulator.Images("sample")[0]
    assert (event.step, event.width, event.height) == (1, 3, 2)
    pixels = np.array(Image.open(io.BytesIO(event.encoded_image_string)))
    assert pixels.tolist() == [[0, 50, 100], [150, 200, 250]]


def check_histogram(accumulator):
    event = accumulator.Histograms("weights")[0]
    values = np.array([(i - 300) * 0.01 for i in range(1000)], dtype=np.float32)
    found = event.histogram_value
    try:
        from torch.utils.tensorboard.summary import make_histogram
    except ImportError:
        print("torch is missing: buckets are not compared")
        return
    edges = [1e-12]
    while edges[-1] * 1.1 < 1e20:
        edges.append(edges[-1] * 1.1)
    wanted = make_histogram(values, [-edge for edge in reversed(edges)] + [0] + edges)
    assert found.bucket_limit == list(wanted.bucket_limit)
    assert found.bucket == list(wanted.bucket)
    assert (found.min, found.max, found.num) == (wanted.min, wanted.max, wanted.num)
    assert abs(found.sum - wanted.sum) < 1e-3 and abs(found.sum_squares - wanted.sum_squares) < 1e-2


def hparams_record(accumulator, tag):
    content = accumulator.SummaryMetadata(tag).plugin_data.content
    return plugin_data_pb2.HParamsPluginData.FromString(content)


def check_hparams(accumulator):
    start = hparams_record(accumulator, "_hparams_/session_start_info").session_start_info
    values = {name: getattr(v, v.WhichOneof("kind")) for name, v in start.hparams.items()}
    assert values == {"optimizer.lr": 0.001, "train.deterministic": True, "model.type": "mlp"}
    assert start.group_name == "run"
    end = hparams_record(accumulator, "_hparams_/session_end_info").session_end_info
    assert end.status == 1  # STATUS_SUCCESS


def main():
    accumulator = load(sys.argv[1])
    for check in (check_scalars, check_evaluation, check_text, check_image, check_histogram, check_hparams):
        check(accumulator)
        print(check.__name__, "passed")


if __name__ == "__main__":
    main()
