#!/usr/bin/env python3
"""The documents' examples that need Python, as they stand there.   check_docs.py ACCEL_RUN

Of docs/checkpoint.md the first script runs, then the recipe's command, then the script again with its last line, the save,
replaced by the second one, the load. Of docs/exported-models.md the commands run, then the scripts that load, put an
adapter on the module again and, where there is onnxscript, export.
"""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def blocks(language, name="checkpoint"):
    document = (ROOT / f"docs/{name}.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", document, re.MULTILINE | re.DOTALL)


def run(command, folder):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"exit {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return done.stdout


def import_checkpoint(binary):
    train, load = blocks("python")
    (recipe,), (command,) = blocks("yaml"), blocks("console")
    words = command.removeprefix("$ ").split()
    assert words[0] == "accel-run", command
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "recipes").symlink_to(ROOT / "recipes")
        (folder / words[1]).write_text(recipe)
        run([sys.executable, "-c", train], folder)
        said = run([binary, *words[1:]], folder)
        assert "assumed, since Accelerate saves neither: step 20, from optimizer.bin" in said, said
        script = "\n".join(line for line in train.splitlines() if not line.startswith("accelerator.save_state"))
        run([sys.executable, "-c", f"{script}\n{load}\nassert schedule.scheduler.last_epoch == 40"], folder)
    print("the examples of docs/checkpoint.md work")


def exported_models(binary):
    commands = "".join(blocks("console", "exported-models"))
    load, adapter, onnx = blocks("python", "exported-models")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for name in ("recipes", "tools"):
            (folder / name).symlink_to(ROOT / name)
        for command in commands.splitlines():
            program, *words = command.removeprefix("$ ").split()
            run([{"python": sys.executable, "accel-run": binary}[program], *words], folder)
        (path,) = (folder / "runs/exported/checkpoints").glob("checkpoint_60/model.safetensors")
        before = (f"import runpy, safetensors.torch\npath = {str(path)!r}\n"
                  "made = runpy.run_path('recipes/tiny/data/flower_model.py')\n"
                  "module, example = made['model'](), made['example']\n")
        after = "assert module.body[1].num_batches_tracked == 60"
        run([sys.executable, "-c", f"{before}{load}\n{after}"], folder)
        adapt = ["model.file=flowers.pt2", "model.lora={rank: 2}", "name=adapted"]
        run([binary, "recipes/tiny/exported.yaml", *adapt], folder)
        run([binary, "export", "runs/adapted", "--to", "DIR"], folder)
        run([sys.executable, "-c", f"{before}import peft\n{adapter}"], folder)
        if importlib.util.find_spec("onnxscript"):
            run([sys.executable, "-c", f"{before}import torch\n{onnx}"], folder)
            assert (folder / "model.onnx").exists()
        else:
            print("left out, there is no onnxscript: the export to ONNX")
    print("the examples of docs/exported-models.md work")


def main():
    binary = Path(sys.argv[1]).resolve()
    import_checkpoint(binary)
    exported_models(binary)


if __name__ == "__main__":
    main()
