"""Checkpoints of transformers' models cross between accel-run and Accelerate, both ways.

    python tests/interop/check_hf_states.py ACCEL_RUN [CASE...]

A script trains transformers' own model and saves with save_state(); accel-run goes on from there. accel-run trains
the model and saves; the script goes on after load_state(). Each continuation has the losses of the side that saved.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from safetensors.torch import load_file, save_file

import check_hf_models as models

SAVED, TOTAL = 8, 20
WRAPPERS = ("module.", "_orig_mod.")
TOLERANCE = 5e-7
RESNET_TOLERANCE = 1e-5  # convolutions and norms over few numbers; rounding decides at a ReLU's kink

RELU = {"opt", "opt_350m", "opt_classes", "opt_answers", "gpt_neox_answers", "electra_tokens"}

LLAMA, ROBERTA, BERT = models.LLAMA, models.ROBERTA, models.BERT
CASES = {
    **models.CASES,
    "llama_tied": ("LlamaForCausalLM", "LlamaConfig", {
        **LLAMA, "tie_word_embeddings": True, "head_dim": 24, "num_key_value_heads": 1, "attention_bias": True}),
    "qwen3_tied": ("Qwen3ForCausalLM", "Qwen3Config", {**LLAMA, "head_dim": 20, "tie_word_embeddings": True}),
    "roberta_segments": ("RobertaForSequenceClassification", "RobertaConfig", {
        **ROBERTA, "type_vocab_size": 3, "num_labels": models.CLASSES}),
    "xlm_roberta_classes": ("XLMRobertaForSequenceClassification", "XLMRobertaConfig", {
        **ROBERTA, "num_labels": models.CLASSES}),
    "gpt2_square": ("GPT2LMHeadModel", "GPT2Config", {**models.SMALL, "n_inner": 48}),
    "vit_bare": ("ViTForImageClassification", "ViTConfig", {
        **models.VIT, "num_channels": 3, "qkv_bias": False, "num_labels": models.CLASSES}),
}


class Script:
    """transformers' model in an Accelerate script."""

    def __init__(self, folder, class_name):
        for state in (AcceleratorState, PartialState, GradientState):
            state._reset_state()
        torch.manual_seed(1)
        self.accelerator = Accelerator(cpu=True)
        model = getattr(transformers, class_name).from_pretrained(folder, dtype=torch.float32).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=models.rate_of(class_name), weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, TOTAL)
        self.model, self.optimizer, self.schedule = self.accelerator.prepare(model, optimizer, schedule)

    def train(self, batches):
        losses = []
        for inputs, targets in batches:
            loss = models.loss_of(self.model, inputs, targets)
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
            losses.append(loss.item())
        return losses


def distance(found, wanted):
    return max(abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True))


def copy_with_prefix(source, target, prefix):
    """As a script saves the module of DDP or torch.compile()."""
    shutil.copytree(source, target)
    tensors = load_file(source / "model.safetensors")
    save_file({prefix + name: tensor for name, tensor in tensors.items()}, target / "model.safetensors", {"format": "pt"})


def run(binary, folder, name, *words):
    """The losses that a run records."""
    models.accel_run(binary, folder, "job.yaml", f"name={name}", *words)
    return models.losses_of(folder / "runs" / name)


def check_pretrained(binary, folder, name):
    """The model `pretrained` reads such a checkpoint, but no stacked experts."""
    run_folder = folder / "runs/ours"
    model = (run_folder / "recipe.yaml").read_text().split("\nmodel:")[1].split("\ntask:")[0]
    indented = model.replace("\n", "\n  ")
    recipe = (folder / "job.yaml").read_text().replace(
        "model: {type: auto, weights: theirs}",
        f"model:\n  type: pretrained\n  weights: runs/ours/checkpoints/checkpoint_{SAVED}\n  model:{indented}")
    (folder / "pretrained.yaml").write_text(recipe)
    done = subprocess.run([binary, "pretrained.yaml", "name=pretrained", "train.until=1 steps"], cwd=folder,
                          capture_output=True, text=True, check=False)
    if "mixtral" in name or "moe" in name:
        assert "' has stacked experts, which the model 'pretrained' does not read" in done.stderr, done.stderr
    else:
        assert done.returncode == 0, done.stderr


def check(binary, folder, name, seed):
    class_name, config_class, options = CASES[name]
    torch.manual_seed(seed)
    model = getattr(transformers, class_name)(getattr(transformers, config_class)(**options))
    model.save_pretrained(folder / "theirs")
    batches = models.write_data(folder, class_name)
    recipe = models.RECIPE.replace(f"lr: {models.LR}", f"lr: {models.rate_of(class_name)}")
    (folder / "job.yaml").write_text(
        f"{recipe}scheduler: cosine\ncheckpoint: {{every: {SAVED} steps, keep: {{last: 9}}}}\n")
    ours = run(binary, folder, "ours")
    again = Script(folder / "theirs", class_name)
    fresh = distance(again.train(batches), ours)

    script = Script(folder / "theirs", class_name)
    script.accelerator.load_state(folder / f"runs/ours/checkpoints/checkpoint_{SAVED}")
    to_python = distance(script.train(batches[SAVED:]), ours[SAVED:])
    shutil.rmtree(folder / f"runs/ours/checkpoints/checkpoint_{TOTAL}")
    check_pretrained(binary, folder, name)
    models.accel_run(binary, folder, "resume", "runs/ours")
    assert models.losses_of(folder / "runs/ours") == ours  # to the bit

    script = Script(folder / "theirs", class_name)
    script.train(batches[:SAVED])
    script.accelerator.save_state(folder / "saved")
    script.accelerator.save_state(folder / "saved_bin", safe_serialization=False)
    wanted = script.train(batches[SAVED:])
    to_us = distance(run(binary, folder, "resumed", f"checkpoint.resume={folder / 'saved'}"), wanted)
    for prefix in WRAPPERS:
        source = folder / prefix.replace(".", "")
        copy_with_prefix(folder / "saved", source, prefix)
        wrapped = run(binary, folder, f"from{source.name}", f"checkpoint.resume={source}")
        to_us = max(to_us, distance(wrapped, wanted))
    pickled = run(binary, folder, "pickled", f"checkpoint.resume={folder / 'saved_bin'}")
    to_us = max(to_us, distance(pickled, wanted))
    worst = max(fresh, to_python, to_us)
    limit = RESNET_TOLERANCE if "resnet" in name else TOLERANCE
    return worst < limit, f"fresh {fresh:.1e}, to Python {to_python:.1e}, to accel-run {to_us:.1e}"


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    good = True
    for name in sys.argv[2:] or CASES:
        # Rounding may move one side across a kink of ReLU; a fault shows with other weights too.
        for seed in (7, 8) if name in RELU else (7,):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    passed, found = check(binary, Path(folder), name, seed)
                except (AssertionError, RuntimeError, KeyError, ValueError) as error:
                    passed, found = False, f"{type(error).__name__}: {error}"
            if passed:
                break
        print(f"{'ok    ' if passed else 'FAILED'} {name}: {found}{'' if seed == 7 else ', with other weights'}", flush=True)
        good = passed and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
