"""What `accel-run push` uploads: huggingface_hub uploads the same files by the same protocol, downloads them, and
transformers loads them.

    python tests/interop/check_push.py ACCEL_RUN
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/smoke"))  # last: it has names of packages

import downloads
import push
import runs


def pushed_files(scratch, hub, environment):
    """The files of the commit of a run, by name."""
    (scratch.path / "tokens.bin").write_bytes(bytes(byte for i in range(600) for byte in (i * 7 % 64, 0)))
    for words in (["job.yaml"], ["push", "runs/job", "--to", "org/tiny", "--private"], ["export", "runs/job", "--to", "exported"]):
        subprocess.run([scratch.binary, *words], cwd=scratch.path, env=environment, check=True, stdout=subprocess.DEVNULL)
    return hub.commits[-1][1]


def check_upload(scratch, hub, files, report):
    """The real client's upload of the same files makes the same commit and object."""
    import huggingface_hub

    (scratch.path / "exported/README.md").write_bytes(files["README.md"])
    objects = dict(hub.objects)
    hub.objects.clear()
    api = huggingface_hub.HfApi(endpoint=hub.url, token=push.TOKEN)
    api.upload_folder(repo_id="org/tiny", folder_path=str(scratch.path / "exported"))
    report.check("huggingface_hub makes the same commit at the hub of the tests", hub.commits[-1][1] == files,
                 hub.commits[-1][1].keys())
    report.check("with the same object of Git LFS", hub.objects == objects)


def check_download(scratch, files, report):
    """The real client gets each byte from a hub with these files."""
    import huggingface_hub
    import transformers

    hub, cdn = downloads.Server(), downloads.Server()
    downloads.publish(hub, cdn, files)
    folder = Path(huggingface_hub.snapshot_download("org/tiny", endpoint=hub.url, local_dir=scratch.path / "downloaded"))
    found = {name: (folder / name).read_bytes() for name in files}
    report.check("huggingface_hub downloads what was pushed", found == files, files.keys())
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    report.check("and transformers loads it", model.config.model_type == "llama")


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1], push.RECIPE) as scratch:
        hub = push.Hub()
        os.environ.update(HF_HOME=str(scratch.path / "hf"), HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_PROGRESS_BARS="1",
                          NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
        environment = dict(os.environ, HF_ENDPOINT=hub.url, HF_TOKEN=push.TOKEN)
        files = pushed_files(scratch, hub, environment)
        check_upload(scratch, hub, files, report)
        check_download(scratch, files, report)
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
