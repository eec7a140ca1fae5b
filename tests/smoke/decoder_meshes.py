#!/usr/bin/env python3
"""GPT-NeoX and OPT on meshes of ranks, against one process.

    decoder_meshes.py ACCEL_RUN RECIPES_FOLDER
"""

import pathlib
import sys

import mesh_jobs
import rank_runs
from mesh_jobs import mesh
from rank_runs import check_close, train

SEQUENCE = "accelerator.parallelism.sequence_parallel=true"
MODELS = {
    "neox": "{type: gpt_neox, num_layers: 2, num_heads: 2, hidden_size: 32}",
    "serial": "{type: gpt_neox, num_layers: 2, num_heads: 2, hidden_size: 32, parallel_residual: false, "
              "tie_embeddings: true}",
    "opt": "{type: opt, num_layers: 2, num_heads: 2, hidden_size: 32, embedding_size: 24, pad: 3}",
    "350m": "{type: opt, num_layers: 2, num_heads: 2, hidden_size: 32, pre_norm: false, tie_embeddings: false}",
}
MESHES = {"tp2": mesh(2, tp=2), "tp2-sequence": [*mesh(2, tp=2), SEQUENCE], "cp2": mesh(2, cp=2), "pp2": mesh(2, pp=2)}


def main():
    binary, recipes = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    report = rank_runs.runs.Report()
    with rank_runs.Scratch(binary) as scratch:
        mesh_jobs.write(scratch, recipes, **{name: mesh_jobs.job(model, steps=10) for name, model in MODELS.items()})
        for name in MODELS:
            train(scratch, report, f"{name}.yaml", f"{name}-1", rank_runs.on(1))
            for layout, words in MESHES.items():
                train(scratch, report, f"{name}.yaml", f"{name}-{layout}", *words)
                check_close(scratch, report, f"{name}-1", f"{name}-{layout}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
