"""Image processors of transformers, both ways: `new --model` reads one, and the one that `export` writes gives the
pixels of the run's evaluations, which the logits of `predict` show.

    python tests/interop/check_image_processor.py ACCEL_RUN
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from PIL import Image

NEAR = 2e-5
VIT = transformers.ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32,
                             patch_size=8, num_labels=2, initializer_range=0.3)
RESNET = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[2, 2, 2, 2], layer_type="basic", num_labels=2)
MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]
# name -> (model, processor, keys of the processor)
CASES = {
    "vit": (transformers.ViTForImageClassification, VIT, "ViTImageProcessor",
            {"size": {"height": 32, "width": 32}, "image_mean": MEAN, "image_std": STD}),
    "vit, nearest": (transformers.ViTForImageClassification, VIT, "ViTImageProcessor",
                     {"size": {"height": 32, "width": 32}, "resample": 0, "do_rescale": False,
                      "image_mean": [100.0, 110.0, 120.0], "image_std": [50.0, 60.0, 70.0]}),
    "resnet": (transformers.ResNetForImageClassification, RESNET, "ConvNextImageProcessor",
               {"size": {"shortest_edge": 32}, "crop_pct": 0.875, "resample": 3, "image_mean": MEAN, "image_std": STD}),
    "clip's processor": (transformers.ViTForImageClassification, VIT, "CLIPImageProcessor",
                         {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}, "resample": 3,
                          "image_mean": MEAN, "image_std": STD}),
}


def write_images(folder):
    """Of even margins: transformers and torchvision, whose crops accel-run has, round odd ones differently."""
    draw = random.Random(3)
    for name in ("a", "b"):
        (folder / "pics" / name).mkdir(parents=True)
        for i in range(6):
            width, height = draw.choice(((64, 48), (40, 40), (56, 84), (120, 80)))
            small = Image.frombytes("RGB", (7, 5), draw.randbytes(7 * 5 * 3))
            small.resize((width, height), Image.Resampling.BICUBIC).save(folder / "pics" / name / f"{i}.png")


def accel_run(binary, folder, *words):
    done = subprocess.run([binary, *words], cwd=folder, capture_output=True, text=True, check=False,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check(binary, name):
    model_class, config, processor, keys = CASES[name]
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        write_images(folder)
        torch.manual_seed(5)
        model_class(config).save_pretrained(folder / "model")
        getattr(transformers, processor)(**keys).save_pretrained(folder / "model")
        accel_run(binary, folder, "new", "job.yaml", "pics", "--model", "model")
        accel_run(binary, folder, "job.yaml", "train.until=2 steps", "train.batch=4", "name=job")
        accel_run(binary, folder, "export", "runs/job", "--to", "exported")
        accel_run(binary, folder, "predict", "runs/job", "--input", "pics", "--output", "out.jsonl", "--probabilities")
        rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
        ours = transformers.AutoImageProcessor.from_pretrained(folder / "exported")
        theirs = transformers.AutoImageProcessor.from_pretrained(folder / "model")
        model = transformers.AutoModelForImageClassification.from_pretrained(folder / "exported").eval()
        images = [Image.open(path) for path in sorted((folder / "pics").rglob("*.png"))]
        worst = 0.0
        for image, row in zip(images, rows, strict=True):
            pixels = [processor(image, return_tensors="pt")["pixel_values"] for processor in (ours, theirs)]
            assert torch.allclose(*pixels, atol=1e-5), name
            with torch.no_grad():
                wanted = model(pixels[0]).logits.softmax(-1)[0]
            found = torch.tensor([row["probabilities"][label] for label in ("a", "b")])
            worst = max(worst, (wanted - found).abs().max().item())
        assert worst < NEAR, (name, worst)
        print(f"{name}: pixels of both processors agree, probabilities within {worst:.1e}", flush=True)


def main():
    for name in CASES:
        check(sys.argv[1], name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
