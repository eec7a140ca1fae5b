"""Writes the order of epochs as Accelerate's seedable sampler gives it.

    python tests/interop/make_golden_order.py > tests/unit/data/golden/epoch_order.tsv

Columns: samples, seed, epoch, CRC-32 of the order as little-endian 64-bit integers, and its first
eight numbers. `--large` adds sizes around the one where PyTorch changes to 64-bit draws; they need
4 GB of memory.
"""

import sys
import zlib

import torch
from accelerate.data_loader import SeedableRandomSampler

SIZES = [1, 2, 3, 5, 10, 31, 64, 1000, 4099, 60000]
SEEDS = [0, 1, 42, 2**31, 2**32 - 1, 2**32 + 7, 2**63 - 10]
EPOCHS = [0, 1, 7]
WIDE_DRAWS_FROM = (2**32 - 1) // 20


def order(samples, seed, epoch):
    generator = torch.Generator().manual_seed(seed + epoch)
    numbers = torch.randperm(samples, generator=generator)
    if samples <= 5000:
        sampler = SeedableRandomSampler(
            data_source=range(samples), generator=torch.Generator(), data_seed=seed
        )
        sampler.set_epoch(epoch)
        assert list(sampler) == numbers.tolist()
    return numbers


def row(samples, seed, epoch):
    numbers = order(samples, seed, epoch)
    first = " ".join(str(n) for n in numbers[:8].tolist())
    print(samples, seed, epoch, zlib.crc32(numbers.numpy()), first, sep="\t")


def main():
    print("samples", "seed", "epoch", "crc32", "first", sep="\t")
    for samples in SIZES:
        for seed in SEEDS:
            for epoch in EPOCHS:
                row(samples, seed, epoch)
    row(1000003, 42, 3)
    if "--large" in sys.argv[1:]:
        row(WIDE_DRAWS_FROM - 1, 42, 0)
        row(WIDE_DRAWS_FROM, 42, 0)


main()
