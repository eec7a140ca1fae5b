#!/usr/bin/env python3
"""Kills a job that saves at every step, again and again, and compares it with one left alone.

    kills.py ACCEL_RUN [KILLS [SHAPE...]]

Three SIGKILLs in four strike inside a save or rotation: the job is stopped when staging/ shows one, at a
random file of it, and killed if it is still inside. The others strike at random moments. Every checkpoint
that is there afterwards is whole and of one step, none is lost, and the run in the end is the run it would
have been, to the last bit: weights, optimizer, record, checkpoints and the curves of trackers. The kills are
shared among the shapes; without a name there is one, `mlp`, and `all` selects all of them.
"""

import collections
import contextlib
import hashlib
import json
import os
import random
import signal
import sys
import time

import curves
import runs

# Large enough that a save takes a while.
TORTURED = runs.JOB.replace("hidden_sizes: [24]", "hidden_sizes: [256, 256]") + """
log: {every: 2 steps, plan: false}
trackers: [csv, tensorboard, dvclive, mlflow]
"""
MODEL = "{type: mlp, hidden_sizes: [256, 256], dropout: 0.3}"
DATA = "train: {type: synthetic/glyphs, length: 64}\n  eval: {type: synthetic/glyphs, length: 32}"
ADDITION = "train: {type: synthetic/addition, length: 64}\n  eval: {type: synthetic/addition, length: 16}"
SMALL = DATA.replace("64}", "64, size: 16}").replace("32}", "32, size: 16}")
MIXTURE = DATA.replace("{type: synthetic/glyphs, length: 64}", "[{type: synthetic/glyphs, length: 48, weight: 2}, "
                       "{type: synthetic/glyphs, length: 16, weight: 1}]")
BEST = "{last: 2, best: 1, metric: eval/accuracy}"
SHAPES = {  # (text of the job, its replacement)
    "mlp": [],
    "sync": [("every: 1 steps, keep", "every: 1 steps, async: false, keep")],
    "best": [("{last: 2}", BEST), ("every: 8 steps", "every: 2 steps"), (DATA, MIXTURE)],
    "fp16_ema": [("accelerator: {", "callbacks: [{type: ema, decay: 0.9}]\naccelerator: {mixed_precision: fp16, ")],
    "accumulation": [("batch: 16", "batch: 16, micro_batch: 4, max_grad_norm: 1.0"), ("workers: 0", "workers: 2"),
                     ("length: 64", "length: 56")],
    "gpt_muon": [(MODEL, "{type: gpt, num_layers: 4, num_heads: 4, hidden_size: 128, dropout: 0.1}"), (DATA, ADDITION),
                 ("{type: adamw, lr: 0.01}", "{type: muon, lr: 0.01}\nscheduler: {type: cosine, warmup: 4 steps}"),
                 ("batch: 16", "batch: 16, activation_checkpointing: blocks")],
    "llama_lora": [(MODEL, "{type: llama, num_layers: 4, num_heads: 4, hidden_size: 128, lora: {rank: 4, dropout: 0.1}}"),
                   (DATA, ADDITION)],
    "resnet": [(MODEL, "{type: resnet, embedding_size: 16}"), (DATA, SMALL),
               ("accelerator:", "scheduler: one_cycle\naccelerator:")],
    "gan": [(MODEL, "{type: dcgan_generator, latent: 16, features: 32}\ntask: {type: gan, discriminator: {type: "
             "dcgan_discriminator, features: 32}, discriminator_optimizer: {type: adam, lr: 0.002}}"),
            (DATA, SMALL + "\n  transform: [{type: normalize, mean: [0.5], std: [0.5]}]")],
    "two_ranks": [("accelerator: {", "accelerator: {num_processes: 2, local_sgd: {every: 4 steps}, "),
                  ("batch: 16", "batch: 16, micro_batch: 4")],
}
KEPT = 2  # as runs.JOB says
LATER = 3  # saves
# The contents of staging/ show the phase in which a process died.
PHASES = {"new": "writing a save", "old": "replacing a save", "trash": "rotating one out"}


def digests(folder):
    """Of the files of a checkpoint that equal runs share: all but the manifest, which has times in it."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.iterdir() if path.name != "accel_run.json"}


def recipe_of(shape):
    recipe = TORTURED
    for found, replacement in SHAPES[shape]:
        if found not in recipe:
            raise ValueError(f"shape '{shape}': the job has no '{found}'")
        recipe = recipe.replace(found, replacement)
    return recipe


class End:
    """What equal runs share."""

    def __init__(self, scratch):
        self.lines, self.weights, self.curves = scratch.exact_lines(), scratch.weights(), curves.of(scratch.run)
        # Also after a kill between the last save and its rotation.
        self.checkpoints = scratch.checkpoints()

    def faults(self, wanted):
        """The differences from an uninterrupted run."""
        if self.lines != wanted.lines:
            yield "other lines in the record"
        if self.weights != wanted.weights:
            yield "other weights"
        if self.checkpoints != wanted.checkpoints:
            yield f"checkpoints {self.checkpoints}, wanted {wanted.checkpoints}"
        if difference := curves.difference(wanted.curves, self.curves):
            yield difference


def straight(binary, recipe):
    """How the job ends, with which checkpoints, and the digests of each step's, when nobody kills it."""
    with runs.Scratch(binary, recipe) as scratch:
        code, errors = scratch.call("job.yaml")
        if code != 0:
            raise RuntimeError(errors)
        end = End(scratch)
    with runs.Scratch(binary, recipe) as scratch:
        code, errors = scratch.call("job.yaml", "checkpoint.keep.last=100")
        if code != 0:
            raise RuntimeError(errors)
        saved = {step: digests(scratch.run / f"checkpoints/checkpoint_{step}") for step in scratch.checkpoints()}
        return end, saved


class Lives:
    """A job that is killed up to `most` times on its way to the end."""

    def __init__(self, binary, recipe, most, seed, saved):
        self.killed, self.phases, self.faults = 0, collections.Counter(), []
        self.saved = saved  # the digests of each step's checkpoint
        self.files = max(map(len, saved.values()))
        self.present = []  # at the last death
        self.staged = {}
        self.kept = []  # (inode, step) of the checkpoints that a death left
        self.draw = random.Random(seed)
        with runs.Scratch(binary, recipe) as scratch:
            while self.live(scratch, self.killed < most):
                pass
            self.end = End(scratch)
            self.verify_kept(scratch)

    def live(self, scratch, kill):
        """False when the job came to its end."""
        process = scratch.start("job.yaml")
        if kill:
            scratch.wait_for_lock(process)
            if self.killed % 4 == 3:
                time.sleep(self.draw.random() * 0.4)
                process.kill()
            else:
                self.kill_inside(scratch, process)
        _, errors = process.communicate()
        if process.returncode == 0:
            return False
        if process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"a life ended by {process.returncode}: {errors}")
        self.killed += 1
        self.note_phase(scratch)
        if "skipped" in errors:
            self.faults.append(f"not whole: {errors}")
        self.look_for_losses(scratch)
        self.look_for_damage(scratch)
        return True

    def kill_inside(self, scratch, process):
        """Lets the process end if it is never seen inside a save."""
        files, workers = self.draw.randrange(self.files), runs.workers_of(process)
        # Some saves later, for kills all over the run.
        from_step = max(self.present, default=0) + self.draw.randrange(LATER)
        while process.poll() is None:
            if self.is_at(scratch, files) and max(scratch.checkpoints(), default=0) >= from_step:
                with runs.stopped(workers):
                    if self.is_at(scratch, 0):
                        process.kill()
                        process.wait()
            time.sleep(0.0005)

    def is_at(self, scratch, files):
        """Whether the process is in a rotation, or in a save with at least this number of files."""
        names = self.fresh(scratch)
        staged = [scratch.run / "staging" / name for name in names if name.startswith("new")]
        with contextlib.suppress(FileNotFoundError):  # gone meanwhile
            return len(names) > len(staged) or any(len(list(folder.iterdir())) >= files for folder in staged)
        return False

    def fresh(self, scratch):
        """What is in staging/ and was not left there by an earlier death: {name: identity}."""
        entries = {}
        for name in scratch.staged():
            with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                stat = (scratch.run / "staging" / name).stat()
                entries[name] = stat.st_ino, stat.st_ctime_ns
        return {name: identity for name, identity in entries.items() if self.staged.get(name) != identity}

    def note_phase(self, scratch):
        fresh = self.fresh(scratch)
        if fresh:
            self.phases[PHASES[min(fresh).split("_")[0]]] += 1
        self.staged.update(fresh)

    def look_for_losses(self, scratch):
        before, self.present = self.present, scratch.checkpoints()
        claimed = saves_in_record(scratch.run / "metrics.jsonl")
        newest = self.present[-1] if self.present else 0
        if newest < max(before[-1:] + claimed, default=0) or len(self.present) < min(len(before), KEPT):
            self.faults.append(f"lost: {self.present} after {before}, the record claims {claimed[-1:]}")

    def look_for_damage(self, scratch):
        for step in self.present:
            folder = scratch.run / f"checkpoints/checkpoint_{step}"
            if digests(folder) != self.saved[step]:
                self.faults.append(f"not the checkpoint of step {step}")
            if (folder.stat().st_ino, step) not in self.kept:
                self.keep(scratch, folder, step)

    def keep(self, scratch, folder, step):
        """Links what a death left, for one call of `checkpoint verify` in the end."""
        self.kept.append((folder.stat().st_ino, step))
        copy = scratch.path / f"kept/checkpoints/checkpoint_{len(self.kept)}"
        copy.mkdir(parents=True)
        for path in folder.iterdir():
            os.link(path, copy / path.name)

    def verify_kept(self, scratch):
        code, errors = scratch.call("checkpoint", "verify", "kept") if self.kept else (0, "")
        if code != 0:
            self.faults.append(f"not whole, of the steps {[step for _, step in self.kept]}: {errors}")


def saves_in_record(path):
    """The steps whose checkpoints the run has claimed so far; a torn last line is none."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line)["step"] for line in lines if '"event":"save"' in line]


def torture(binary, shape, kills, report):
    recipe = recipe_of(shape)
    wanted, saved = straight(binary, recipe)
    killed, jobs, phases, faults = 0, 0, collections.Counter(), []
    start = time.monotonic()
    while killed < kills:
        lives = Lives(binary, recipe, min(kills - killed, 25), jobs, saved)
        killed, jobs, phases = killed + lives.killed, jobs + 1, phases + lives.phases
        faults += lives.faults
        faults += [f"job {jobs} does not end as an uninterrupted one: {fault}" for fault in lives.end.faults(wanted)]
    inside = sum(phases.values())
    how = ", ".join(f"{count} while {phase}" for phase, count in sorted(phases.items()))
    report.check(f"{shape}: no checkpoint is invalid, lost or mixed, and every job ends as one left alone", not faults,
                 "\n".join(faults))
    report.check(f"{shape}: {jobs} jobs killed {killed} times in {time.monotonic() - start:.0f} s, {inside} of them inside"
                 f" a save or rotation ({how})", inside * 5 >= killed * 2)
    sys.stdout.flush()


def main():
    binary = sys.argv[1]
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 25
    shapes = sys.argv[3:] or ["mlp"]
    shapes = list(SHAPES) if shapes == ["all"] else shapes
    report = runs.Report()
    for number, shape in enumerate(shapes):
        torture(binary, shape, kills * (number + 1) // len(shapes) - kills * number // len(shapes), report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
