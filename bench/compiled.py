"""What a step of compiled modules costs beside the same modules under torch.compile.

    python bench/compiled.py ACCEL_RUN [NAME ...]

As bench/exported.py measures it: seconds of the processor on one thread, those of accel-run with all that
a step takes, in turns, of whose ratios the median stands. Both compile with the same TorchInductor.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parent))

import exported
import torch
from compile_model import compile_model
from exported_models import CLASSES, ConvNorm, images_of_sequence, language
from export_model import export_programs
from torch import nn

SECONDS = 4  # of the long run, about


def gpt():
    return language("GPT2LMHeadModel", "GPT2Config", n_positions=16, n_embd=256, n_layer=4, n_head=4, resid_pdrop=0,
                    embd_pdrop=0, attn_pdrop=0)


def convolutions():
    layers = [ConvNorm(3, 32), ConvNorm(32, 64, stride=2), ConvNorm(64, 64), ConvNorm(64, 128, stride=2)]
    return images_of_sequence(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, CLASSES)))


MODULES = {"gpt": gpt, "convolutions": convolutions}


def compare(binary, folder, name):
    torch.manual_seed(7)
    module, example, vary, task = case = MODULES[name]()
    compile_model(module, export_programs(module, example, vary), folder / "model")
    batches = exported.write_job(folder, name, case, "aoti")
    compiled = torch.compile(module)
    exported.python(compiled, example, task, batches, 3)
    steps = max(100, int(SECONDS / exported.python(compiled, example, task, batches, 20).processor))
    mine, theirs, ratio, clock = exported.in_turns(lambda: exported.python(compiled, example, task, batches, steps),
                                                   lambda: exported.ours(binary, folder, steps))
    print(f"{name:12} {1e3 * mine:8.3f} ms  torch.compile {1e3 * theirs:8.3f} ms  ratio {ratio:.2f}, "
          f"by the clock {clock:.2f}", flush=True)


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    for name in sys.argv[2:] or MODULES:
        with tempfile.TemporaryDirectory() as folder:
            compare(binary, Path(folder), name)


if __name__ == "__main__":
    main()
