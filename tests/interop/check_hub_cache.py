"""What accel-run downloads is where huggingface_hub and transformers look.

    python tests/interop/check_hub_cache.py ACCEL_RUN
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/smoke"))  # last: it has names of packages

import downloads


def main():
    source = ROOT / "recipes/tiny/data/gpt2"
    files = {path.name: path.read_bytes() for path in source.iterdir() if path.is_file()}
    hub, cdn = downloads.Server(), downloads.Server()
    downloads.publish(hub, cdn, files)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(HF_HOME=folder, HF_ENDPOINT=hub.url, NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
        subprocess.run([sys.argv[1], "download", "hf:org/tiny"], check=True, stdout=subprocess.DEVNULL)
        import huggingface_hub
        import transformers

        found = Path(huggingface_hub.snapshot_download("org/tiny", local_files_only=True))
        assert found.name == downloads.COMMIT, found
        model = transformers.AutoModelForCausalLM.from_pretrained("org/tiny", local_files_only=True)
        assert model.config.model_type == "gpt2"
        # And the other way: a model that huggingface_hub has fetched.
        for name, body in files.items():
            hub.pages[f"/org/theirs/resolve/main/{name}"] = (200, {}, body)
            huggingface_hub.hf_hub_download("org/theirs", name)
        recipe = Path(folder) / "r.yaml"
        recipe.write_text("model: {type: auto, weights: 'hf:org/theirs'}\n"
                          "data: {train: {type: synthetic/addition}}\n")
        subprocess.run([sys.argv[1], "validate", recipe], check=True, stdout=subprocess.DEVNULL)
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
