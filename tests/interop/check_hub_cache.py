"""What accel-run downloads is where huggingface_hub and transformers look, of models and datasets.

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


def check_dataset(hub, cdn, folder, binary, huggingface_hub):
    """Either finds what the other has fetched, and both choose the same files of it."""
    files = downloads.dataset_files()
    downloads.publish(hub, cdn, files, "datasets/org/reviews")
    subprocess.run([binary, "download", "hf:datasets/org/reviews"], check=True, stdout=subprocess.DEVNULL)
    wanted = [name for name in files if name != "script.py"]
    found = Path(huggingface_hub.snapshot_download("org/reviews", repo_type="dataset", local_files_only=True))
    assert found.name == downloads.COMMIT, found
    assert sorted(str(path.relative_to(found)) for path in found.rglob("*") if path.is_file()) == sorted(wanted)
    for name in wanted:
        cached = huggingface_hub.try_to_load_from_cache("org/reviews", name, repo_type="dataset")
        assert Path(cached).read_bytes() == files[name], name
    for name in wanted:
        hub.pages[f"/datasets/org/theirs/resolve/main/{name}"] = (200, {}, files[name])
        huggingface_hub.hf_hub_download("org/theirs", name, repo_type="dataset")
    tokenizer = ROOT / "recipes/tiny/data/reviews_tokenizer.json"
    recipe = folder / "data.yaml"
    recipe.write_text("name: theirs\nmodel: {type: bert, num_layers: 1, num_heads: 2, hidden_size: 8}\ndata: {train: {type: hf, path: "
                      f"'hf:datasets/org/theirs', text: review, target: stars, tokenizer: {tokenizer}}}}}\n"
                      "train: {until: 1 step, batch: 4}\n")
    subprocess.run([binary, recipe], check=True, stdout=subprocess.DEVNULL, cwd=folder)


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
        check_dataset(hub, cdn, Path(folder), sys.argv[1], huggingface_hub)
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
