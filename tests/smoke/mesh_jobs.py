"""The job that tests of meshes train, and what they ask of its runs."""

import os

import rank_runs

# Whether every case of a matrix runs, as in `make torture`, or a spread of them.
FULL = os.environ.get("ACCEL_TEST_MATRIX") == "full"
# Texts of FOLDER: an average, clipping, evaluations, and with other limits a last batch of an epoch with fewer samples.
JOB = """
model: MODEL
data:
  train: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: LENGTH, limit: SAMPLES}
  eval: {type: text, path: "FOLDER/tiny/data/rhyme.txt", max_seq_len: LENGTH, limit: 21}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.002}
scheduler: {type: cosine, warmup: 4 steps}
train: {until: STEPS steps, batch: 16, micro_batch: 4, max_grad_norm: 0.5}
accelerator: {num_cpu_threads_per_process: 1}
eval: {every: HALF steps, batch: 4}
callbacks: CALLBACKS
checkpoint: {every: HALF steps}
"""
STEPS = 8  # more than an epoch
AVERAGE = "{type: ema, decay: 0.9}"
TEXTS = "{type: generate, prompts: [\"the\"], max_new_tokens: 8}"
# Sequences of odd length and a tied head of 27 rows.
GPT = "{type: gpt, num_layers: 2, num_heads: 4, hidden_size: 32, max_seq_len: 31}"
EQUAL = "bit-identical: every step, every evaluation, the checkpoint"


def spread(cases, each):
    """All cases of a full matrix, otherwise every `each`-th one."""
    cases = list(cases)
    return cases if FULL else cases[::each]


def llama(options):
    """GPT as a llama with these further options."""
    return GPT.replace("type: gpt,", f"type: llama, {options},")


def job(model=GPT, length=15, samples=80, steps=STEPS, callbacks=(AVERAGE,)):
    text = JOB.replace("MODEL", model).replace("LENGTH", str(length)).replace("SAMPLES", str(samples))
    text = text.replace("STEPS", str(steps)).replace("HALF", str(steps // 2))
    return text.replace("CALLBACKS", f"[{', '.join(callbacks)}]")


def write(scratch, recipes, **jobs):
    """Recipes by name, on the data of the folder."""
    for name, text in jobs.items():
        (scratch.path / f"{name}.yaml").write_text(text.replace("FOLDER", str(recipes)))


def mesh(ranks, stage=0, schedule=None, more=(), **axes):
    """The overrides of a mesh of these axes; `more`: options of `accelerator`."""
    words = [rank_runs.on(ranks), *(f"accelerator.parallelism.{axis}={size}" for axis, size in axes.items())]
    words += [f"accelerator.pipeline.schedule={schedule}"] if schedule else []
    words += [f"accelerator.fsdp.stage={stage}"] if stage else []
    return words + [f"accelerator.{word}" for word in more]


def check_equal(scratch, report, one, other, what):
    found = rank_runs.last_line_of_diff(scratch, one, other)
    report.check(what, found == EQUAL, found)


def cycle(meshes):
    """Pairs in which each mesh writes a checkpoint that another one reads."""
    names = list(meshes)
    return list(zip(names, names[1:] + names[:1]))


def check_reshard(scratch, report, recipe, meshes, pairs, *words, prefix=""):
    """Checkpoints of step 4 of each mesh are resumed on others, which save what they have restored."""
    for source in sorted({pair[0] for pair in pairs}):
        rank_runs.train(scratch, report, recipe, f"{prefix}from-{source}", *meshes[source], *words, "train.until=4 steps",
                        "checkpoint.every=4 steps")
    for source, target in pairs:
        rank_runs.check_restored(scratch, report, recipe, f"{prefix}from-{source}", f"{prefix}{source}-on-{target}",
                                 *meshes[target], *words)


def check_factored(scratch, report, recipe, meshes, pairs):
    """Adafactor, whose moments lack a dimension of their parameter: losses of one process, and resumes on other meshes."""
    check_reshard(scratch, report, recipe, meshes, pairs, "optimizer!={type: adafactor, lr: 0.01}", prefix="factored-")
    for mesh in sorted({mesh for mesh, _ in pairs if mesh != "1"}):
        rank_runs.check_close(scratch, report, "factored-from-1", f"factored-from-{mesh}")
