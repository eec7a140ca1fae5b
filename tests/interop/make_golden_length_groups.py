"""Writes the order of epochs as transformers' LengthGroupedSampler gives it.

    python tests/interop/make_golden_length_groups.py > tests/unit/data/golden/length_groups.tsv

Columns: samples, batch, seed, CRC-32 of the order as little-endian 64-bit integers, and its first
eight numbers. Sample i has length i * i % 97 + 1 + i % 3, and the sampler a generator with the seed.
"""

import struct
import zlib

import torch
from transformers.trainer_pt_utils import LengthGroupedSampler


def main():
    print("samples", "batch", "seed", "crc32", "first", sep="\t")
    for samples in (1, 7, 64, 1000, 10007):
        lengths = [i * i % 97 + 1 + i % 3 for i in range(samples)]
        for batch in (1, 4, 32):
            for seed in (0, 42):
                generator = torch.Generator().manual_seed(seed)
                order = list(LengthGroupedSampler(batch, lengths=lengths, generator=generator))
                crc = zlib.crc32(struct.pack(f"<{samples}q", *order))
                print(samples, batch, seed, crc, " ".join(map(str, order[:8])), sep="\t")


if __name__ == "__main__":
    main()
