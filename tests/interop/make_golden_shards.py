"""Writes how Accelerate deals an epoch's samples to the ranks.

    python tests/interop/make_golden_shards.py            writes tests/unit/data/golden/shards.tsv
    python tests/interop/make_golden_shards.py --check    fails unless the file is what it would write
"""

import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from accelerate import data_loader
from torch.utils.data import BatchSampler, SequentialSampler

FILE = Path(__file__).resolve().parents[1] / "unit/data/golden/shards.tsv"
LENGTHS = range(27)
MICRO_BATCHES = range(1, 6)
WORLDS = range(1, 5)

HEADER = """\
# How Accelerate 1.15.0 deals an epoch; written by tests/interop/make_golden_shards.py.
# Columns: samples, micro-batch of a rank, ranks, which settings give this, what the ranks get.
# A setting is two letters. The way of sharing: s BatchSamplerShard, p the same with split_batches
# (of batches of micro-batch x ranks), d DataLoaderDispatcher, q the same with split_batches. The
# tail: e even_batches, u not, x drop_last with even_batches, y drop_last without.
# Ranks are parted by '|', their batches by ','. A letter is a position in the order, a is 0.
# Left out: tables in which the dispatcher hands a rank an empty batch.
"""


def positions(samples, size, drop_last):
    return BatchSampler(SequentialSampler(range(samples)), size, drop_last)


class Dispatcher(data_loader.DataLoaderDispatcher):
    """One rank of several, which reads what rank 0 would have sent to it."""

    def __init__(self, rank, world, **options):
        super().__init__(torch.arange(len(options.pop("of"))), **options)
        self.rank = rank
        self.state = SimpleNamespace(num_processes=world, process_index=rank, device="cpu")

    def _fetch_batches(self, iterator):
        self.state.process_index = 0
        fetched = super()._fetch_batches(iterator)
        self.state.process_index = self.rank
        return fetched


def send_nothing():
    for name in ("get_data_structure", "initialize_tensors"):
        setattr(data_loader, name, lambda batch: batch)
    data_loader.broadcast = lambda batch, from_process: batch
    data_loader.broadcast_object_list = lambda objects: None


def sharded(samples, size, world, drop_last, even, split):
    sampler = positions(samples, size * world if split else size, drop_last)
    shards = [data_loader.BatchSamplerShard(sampler, world, rank, split, even) for rank in range(world)]
    table = [list(map(list, shard)) for shard in shards]
    assert [len(batches) for batches in table] == [len(shard) for shard in shards] or split
    return table


def dispatched(samples, size, world, drop_last, split):
    sampler = positions(samples, size * world if split else size, drop_last)
    if len(sampler) == 0 or (drop_last and not split and len(sampler) < world):
        return [[] for _ in range(world)]  # the dispatcher itself refuses to start
    return [[batch.tolist() for batch in Dispatcher(rank, world, of=range(samples), split_batches=split,
                                                    _drop_last=drop_last, batch_sampler=sampler)]
            for rank in range(world)]


def settings(samples, size, world):
    """Yields (setting, table)."""
    for tail, (drop_last, even) in zip("euxy", itertools.product((False, True), (True, False))):
        yield "s" + tail, sharded(samples, size, world, drop_last, even, False)
        yield "p" + tail, sharded(samples, size, world, drop_last, even, True)
    for tail, drop_last in ("e", False), ("x", True):
        yield "d" + tail, dispatched(samples, size, world, drop_last, False)
        yield "q" + tail, dispatched(samples, size, world, drop_last, True)


def spelled(table):
    return "|".join(",".join("".join(chr(97 + p) for p in batch) for batch in rank) for rank in table)


def content():
    lines = [HEADER]
    for samples, size, world in itertools.product(LENGTHS, MICRO_BATCHES, WORLDS):
        tables = {}
        for setting, table in settings(samples, size, world):
            if all(batch for rank in table for batch in rank):
                tables.setdefault(spelled(table), []).append(setting)
        for table, names in tables.items():
            lines.append(f"{samples}\t{size}\t{world}\t{''.join(names)}\t{table}\n")
    return "".join(lines)


def main():
    send_nothing()
    if sys.argv[1:] == ["--check"]:
        if FILE.read_text() != content():
            sys.exit(f"{FILE} is not what Accelerate gives")
    else:
        FILE.write_text(content())


main()
