#!/usr/bin/env python3
"""The examples of docs/checkpoint.md that need Python, as they stand there.   check_docs.py ACCEL_RUN

The first script runs, then the recipe's command, then the script again with its last line, the save,
replaced by the second one, the load.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def blocks(language):
    document = (ROOT / "docs/checkpoint.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", document, re.MULTILINE | re.DOTALL)


def run(command, folder):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"exit {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    train, load = blocks("python")
    (recipe,), (command,) = blocks("yaml"), blocks("console")
    words = command.removeprefix("$ ").split()
    assert words[0] == "accel-run", command
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "recipes").symlink_to(ROOT / "recipes")
        (folder / words[1]).write_text(recipe)
        run([sys.executable, "-c", train], folder)
        said = run([Path(sys.argv[1]).resolve(), *words[1:]], folder)
        assert "assumed, as Accelerate keeps neither: step 20, as optimizer.bin says" in said, said
        script = "\n".join(line for line in train.splitlines() if not line.startswith("accelerator.save_state"))
        run([sys.executable, "-c", f"{script}\n{load}\nassert schedule.scheduler.last_epoch == 40"], folder)
    print("the examples of docs/checkpoint.md work")


if __name__ == "__main__":
    main()
