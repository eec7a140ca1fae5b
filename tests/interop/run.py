#!/usr/bin/env python3
"""Runs everything that compares accel-run with the Python packages.   run.py BUILD

BUILD is a folder with the executable and all test binaries. The interpreter that runs this must
have tests/interop/requirements.txt installed, and the one that ACCEL_TRACKERS_PYTHON names
tests/interop/trackers.txt.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def steps(build, scratch):
    """Yields (what is checked, command)."""
    python = sys.executable
    yield "Accelerate still deals samples as the tests say", [python, HERE / "make_golden_shards.py", "--check"]
    yield "Accelerate still gives the golden losses", [python, HERE / "make_golden_losses.py", "--check"]
    yield "accel-run gives them too", [python, ROOT / "tests/smoke/golden_losses.py",
                                       build / "accel-run", HERE, "losses"]
    yield "PyTorch still gives the benchmarks' losses", [python, HERE / "make_golden_bench.py", "--check"]
    yield "two processes of Accelerate's still give theirs", [python, HERE / "make_golden_rank_losses.py", "--check"]
    yield "two ranks of accel-run give them too", [python, ROOT / "tests/smoke/golden_losses.py",
                                                   build / "accel-run", HERE, "rank_losses"]
    yield "what accel-run converts is read", [python, HERE / "check_convert.py", build / "accel-run"]
    yield "sharded checkpoints, both ways", [python, HERE / "check_shards.py", build / "accel-run"]
    yield "checkpoints of DeepSpeed", [python, HERE / "check_deepspeed.py", build / "accel-run"]
    yield "Accelerate still places models as the tests say", [python, HERE / "make_golden_device_maps.py", "--check"]
    yield "offload folders, both ways", [python, HERE / "check_offload.py", build / "accel-run"]
    yield "models of transformers", [python, HERE / "check_hf_models.py", build / "accel-run"]
    yield "image processors, both ways", [python, HERE / "check_image_processor.py", build / "accel-run"]
    yield "transformers still gives the golden scores", [python, HERE / "make_golden_logits.py", "--check"]
    yield "tokens of generate()", [python, HERE / "check_generation.py", build / "accel-run"]
    yield "states of transformers' models, both ways", [python, HERE / "check_hf_states.py", build / "accel-run"]
    yield "losses by problem_type", [python, HERE / "check_problem_types.py", build / "accel-run"]
    yield "decoders' classes of padded texts", [python, HERE / "check_padded_texts.py", build / "accel-run"]
    yield "encoder-decoders of transformers, and their metrics", [python, HERE / "check_seq2seq.py",
                                                                  build / "accel-run"]
    yield "CLIP of transformers", [python, HERE / "check_clip.py", build / "accel-run"]
    yield "answers to questions", [python, HERE / "check_question_answering.py", build / "accel-run"]
    yield "words with tags", [python, HERE / "check_tagged_words.py", build / "accel-run"]
    yield "packed texts of encoders", [python, HERE / "check_packed_texts.py", build / "accel-run"]
    yield "PyTorch still gives the exported programs' numbers", [python, HERE / "make_golden_exported.py", "--check"]
    yield "exported models", [python, HERE / "check_exported.py", build / "accel-run"]
    yield "compiled models", [python, HERE / "check_compiled.py", build / "accel-run"]
    yield "preference tasks of TRL", [python, HERE / "check_preference.py", build / "accel-run"]
    yield "GGUF files", [python, HERE / "check_gguf.py", build / "accel-run"]
    yield "adapters of PEFT", [python, HERE / "check_lora.py", build / "accel-run"]
    yield "draws of DataLoaders", [python, HERE / "check_dataloader_generator.py", build / "accel-run"]
    yield "quantized weights of bitsandbytes", [python, HERE / "check_quantized.py", build / "accel-run"]
    yield "weights and caches of other types", [python, HERE / "check_weight_types.py", build / "accel-run"]
    yield "fp8 of torchao", [python, HERE / "check_fp8.py", build / "accel-run"]
    yield "checkpoints, both ways", [python, HERE / "check_matrix.py", build / "accel-run"]
    yield "configs, both ways", [python, HERE / "check_configs.py", build / "accel-run"]
    yield "torchrun starts ranks", [python, HERE / "check_torchrun.py", build / "accel-run"]
    yield "specs of submit", [python, HERE / "check_submit_specs.py", build / "accel-run"]
    yield "jobs on a real Slurm", [python, HERE / "check_slurm.py", build / "accel-run"]
    yield "the JSON Schema takes the recipes", [python, HERE / "check_recipe_schema.py", build / "accel-run"]
    yield "TrainingArguments are imported", [python, HERE / "check_import.py", build / "accel-run"]
    yield "the hub's cache, both ways", [python, HERE / "check_hub_cache.py", build / "accel-run"]
    yield "pushed models, with huggingface_hub", [python, HERE / "check_push.py", build / "accel-run"]
    yield "objects of S3, with boto3 and moto", [python, HERE / "check_streaming.py", build / "accel-run"]
    yield "the documents' scripts", [python, HERE / "check_docs.py", build / "accel-run"]
    yield "several models and optimizers", [python, HERE / "check_several_models.py", build / "accel-run"]
    yield "the table of Accelerate's methods", [python, HERE / "check_methods.py"]
    yield "the golden ids are the tokenizers package's", [python, HERE / "make_tokenizers.py", "--check"]
    yield "the package still cuts texts as the tests say", [python, HERE / "make_truncations.py", "--check"]
    yield "tokenizers, both ways", [python, HERE / "check_tokenizers.py", build / "accel-run"]
    yield "tokenizer folders", [python, HERE / "check_tokenizer_folders.py", build / "accel-run"]
    yield "the golden ids are SentencePiece's", [python, HERE / "make_sentencepiece.py", "--check"]
    yield "models of SentencePiece's", [python, HERE / "check_sentencepiece.py", build / "accel-run"]
    yield "chat templates", [python, HERE / "check_chat_templates.py", build / "accel-run"]
    models = scratch / "models.json"
    yield "PyTorch's models on this machine", [python, HERE / "make_golden_models.py", "--exact", models]
    os.environ["ACCEL_GOLDEN_MODELS"] = str(models)
    yield "an MLflow server takes runs", [os.environ["ACCEL_TRACKERS_PYTHON"],
                                          HERE / "check_mlflow_server.py", build / "accel-run"]
    yield "runs that were killed, in all trackers", [os.environ["ACCEL_TRACKERS_PYTHON"],
                                                     HERE / "check_killed_runs.py", build / "accel-run"]
    # With ACCEL_PYTHON set the unit tests hand their files to the real readers as well.
    yield "the unit tests, against Python", ["ctest", "--test-dir", build, "--label-regex", "unit",
                                             "--output-on-failure"]


def main():
    build = Path(sys.argv[1]).resolve()
    os.environ["ACCEL_PYTHON"] = sys.executable
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        for what, command in steps(build, Path(scratch)):
            print(f"interop: {what}", flush=True)
            if subprocess.run([str(word) for word in command], cwd=ROOT, check=False).returncode:
                failed.append(what)
    for what in failed:
        print(f"interop: FAILED: {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
