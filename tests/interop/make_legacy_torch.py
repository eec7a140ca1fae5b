#!/usr/bin/env python3
"""Writes tests/unit/formats/golden/legacy.bin in the format of torch before 1.6."""

from pathlib import Path

import torch

GOLDEN = Path(__file__).resolve().parents[1] / "unit/formats/golden"


def main():
    weight = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    torch.save({"weight": weight, "turned": weight.t(), "tied": weight, "half": torch.ones(3, dtype=torch.float16),
                "steps": torch.tensor(7), "epoch": 3},
               GOLDEN / "legacy.bin", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
