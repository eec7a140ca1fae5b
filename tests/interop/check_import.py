"""What the installed transformers writes of TrainingArguments is known to the importer.

    python tests/interop/check_import.py ACCEL_RUN
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from transformers import TrainingArguments

# Named as left even at their defaults: what accel-run does otherwise.
EXPECTED = set()


def account(binary, folder, **arguments):
    """The lines of the account under 'not in the recipe'."""
    path = Path(folder) / "args.json"
    path.write_text(TrainingArguments(output_dir=str(Path(folder) / "out"), use_cpu=True, **arguments).to_json_string())
    done = subprocess.run([binary, "import", str(path)], capture_output=True, text=True, check=True)
    lines = done.stderr.split("\nnot in the recipe: ")[1].splitlines()[1:]
    entries = [line.strip() for line in lines]
    return entries[:next((i for i, line in enumerate(lines) if not line.startswith("  ")), len(lines))]


def main():
    with tempfile.TemporaryDirectory() as folder:
        plain = account(sys.argv[1], folder, report_to=[])
        unknown = [line for line in plain if "unknown key" in line]
        unexpected = [line for line in plain if line.split(": ")[1] not in EXPECTED]
        output = account(sys.argv[1], folder, report_to=["tensorboard"], torch_compile=True, optim="lion_32bit")
    for line in unknown + unexpected:
        print(line)
    good = not unexpected and any("torch_compile:" in line for line in output)
    print("ok" if good else f"wrong: {output}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
