"""Losses of classifiers by `problem_type`, beside those that transformers computes from the same labels.

    python tests/interop/check_problem_types.py ACCEL_RUN
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

import check_hf_models as models

LABELS = 3
# The case of check_hf_models.py, its problem_type or None, the kind of targets, and the problem that transformers takes.
CASES = {
    "bert": ("multi_label_classification", "flags", "multi_label_classification"),
    "roberta": (None, "flags", "multi_label_classification"),
    "distilbert": ("regression", "numbers", "regression"),
    "camembert": (None, "number", "regression"),
    "vit": ("multi_label_classification", "flags", "multi_label_classification"),
    "resnet": (None, "flags", "multi_label_classification"),
    "gpt2_classes": (None, "flags", "multi_label_classification"),
    "bert ints": (None, "classes", "single_label_classification"),
}


def write_targets(folder, kind):
    count = models.STEPS * models.BATCH
    random = np.random.default_rng(5)
    targets = {
        "flags": lambda: random.integers(0, 2, (count, LABELS)).astype(np.float32),
        "numbers": lambda: random.standard_normal((count, LABELS), dtype=np.float32),
        "number": lambda: random.standard_normal(count, dtype=np.float32),
        "classes": lambda: random.integers(0, LABELS, count),
    }[kind]()
    np.save(folder / "targets.npy", targets)
    return torch.tensor(targets)


def train(model, inputs, targets, rate):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    name = "pixel_values" if inputs.is_floating_point() else "input_ids"
    losses = []
    for x, y in zip(inputs.split(models.BATCH), targets.split(models.BATCH), strict=True):
        loss = model(**{name: x}, labels=y).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def f1(right, counted):
    return 2 * right / counted if counted else 0.0


def check_predictions(binary, folder, model, inputs, targets):
    """Metrics and labels by a threshold of 0.4."""
    (folder / "eval.yaml").write_text((folder / "job.yaml").read_text().replace(
        "  loader:", "  eval: {type: npy, inputs: inputs.npy, targets: targets.npy}\n  loader:"))
    models.accel_run(binary, folder, "eval.yaml", "name=eval", "task={type: multi_label_classification, threshold: 0.4}",
                     "train.until=1 steps", "optimizer.lr=1e-12")
    lines = [json.loads(line) for line in (folder / "runs/eval/metrics.jsonl").read_text().splitlines()]
    found = [line["eval"] for line in lines if "eval" in line][-1]
    found = {key.removeprefix("eval/"): value for key, value in found.items()}
    with torch.no_grad():
        chances = models.logits_of(model.eval(), inputs).sigmoid()
    chosen, actual = (chances > 0.4).numpy(), targets.numpy() > 0.5
    right, counted = (chosen & actual).sum(0), chosen.sum(0) + actual.sum(0)
    wanted = {"f1_micro": f1(right.sum(), counted.sum()), "f1_macro": np.mean([f1(*x) for x in zip(right, counted)]),
              "subset_accuracy": (chosen == actual).all(1).mean(), "f1_1": f1(right[1], counted[1])}
    for key, value in wanted.items():
        assert abs(found[key] - value) < 1e-9, (key, found, value)
    printed = models.accel_run(binary, folder, "predict", "runs/eval", "--input", "inputs.npy",
                              "--probabilities").stdout
    for line, chance in zip(map(json.loads, printed.splitlines()), chances, strict=True):
        assert line["labels"] == [i for i in range(LABELS) if chance[i] > 0.4], (line, chance)
        assert abs(line["probabilities"]["1"] - chance[1].item()) < 1e-5, (line, chance)


def check(binary, folder, name):
    problem, kind, decided = CASES[name]
    class_name, config_class, options = models.CASES[name.split()[0]]
    options = {**options, "num_labels": 1 if kind == "number" else LABELS}
    if problem:
        options["problem_type"] = problem
    torch.manual_seed(7)
    theirs = getattr(transformers, class_name)(getattr(transformers, config_class)(**options))
    theirs.save_pretrained(folder / "theirs")
    inputs = torch.cat([x for x, _ in models.write_data(folder, class_name)])
    targets = write_targets(folder, kind)
    rate = models.rate_of(class_name)
    (folder / "job.yaml").write_text(models.RECIPE)
    if kind == "flags" and "resnet" not in name:  # whose norms change in a step
        check_predictions(binary, folder, theirs, inputs, targets)
    models.accel_run(binary, folder, "job.yaml", f"optimizer.lr={rate}")
    wanted = train(theirs, inputs, targets, rate)
    assert theirs.config.problem_type == decided
    worst = max(abs(a - b) / abs(b) for a, b in zip(models.losses_of(folder / "runs/job"), wanted, strict=True))
    assert worst < 1e-5, worst
    models.accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    ours = models.load(class_name, folder / "ours")
    assert ours.config.problem_type == decided, ours.config.problem_type
    models.same_logits(ours, theirs.eval(), inputs[: models.BATCH])
    print(f"{name}, {problem}, {kind}: {decided}, {models.STEPS} losses within {worst:.1e}", flush=True)


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), name)


if __name__ == "__main__":
    main()
