"""Compares the task `grpo` with TRL's GRPOTrainer: rewards, advantages, losses and weights of the same completions.

    python tests/interop/check_grpo.py ACCEL_RUN

accel-run samples; TRL's trainer trains on the completions that accel-run has logged.
"""

import json
import os
import random
import re
import sys
import tempfile
from pathlib import Path

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import datasets
import peft
import torch
import transformers
import trl
from safetensors.torch import load_file
from trl.rewards import get_soft_overlong_punishment

import check_hf_models as models
from check_preference import TOKENIZER

STEPS = 20
PROMPTS = 6
GROUP = 4
LENGTH = 24
LR = 0.05
NEAR = 1e-6

RECIPE = f"""
name: job
model: {{type: auto, weights: theirs}}
task:
  type: grpo
  rewards:
    - {{type: format, pattern: '[a-e]', whole: false}}
    - {{type: format, pattern: '[0-9]', whole: false, reward: 0.5}}
    - {{type: length, max_tokens: {LENGTH}, buffer: 18}}
  num_generations: {GROUP}
  max_completion_length: {LENGTH}
  log_completions: true
data:
  train: {{type: prompts, path: prompts.jsonl, tokenizer: "{TOKENIZER}", max_length: 64}}
  loader: {{shuffle: false}}
optimizer: {{type: sgd, lr: {LR}}}
train: {{until: {STEPS} steps, batch: {PROMPTS}, max_grad_norm: none}}
accelerator: {{num_cpu_threads_per_process: 1, kernels: reference}}
"""


def has_letter(completions, **_):
    return [1.0 if re.search("[a-e]", text) else 0.0 for text in completions]


def has_digit(completions, **_):
    return [0.5 if re.search("[0-9]", text) else 0.0 for text in completions]


REWARDS = [has_letter, has_digit, get_soft_overlong_punishment(LENGTH, 18)]


def write_prompts(folder):
    draw = random.Random(5)
    rows = [{"prompt": f"one more than {draw.randrange(9)}?" + " a fish" * draw.randrange(3)} for _ in range(STEPS * PROMPTS)]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return datasets.Dataset.from_list(rows)


def tokenizer():
    """Its padding token is the end token: TRL counts a completion that ends with padding as ended."""
    made = transformers.AutoTokenizer.from_pretrained(TOKENIZER)
    made.pad_token = made.eos_token
    return made


def small_model(folder):
    """Without a padding token, whose embedding transformers does not train: a random model samples it."""
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        vocab_size=300, eos_token_id=tokenizer().eos_token_id, hidden_size=36, intermediate_size=52, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=18, max_position_embeddings=1024, initializer_range=0.2)
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "theirs")
    return transformers.LlamaForCausalLM.from_pretrained(folder / "theirs", dtype=torch.float32)


class Replayed(trl.GRPOTrainer):
    """Replays the completions of a log instead of sampling, and records the losses."""
    rows = None
    losses = None

    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        count = len(prompt_ids)
        rows, self.rows = self.rows[:count], self.rows[count:]
        assert [row["prompt_ids"] for row in rows] == [list(ids) for ids in prompt_ids]
        self.sampled = rows
        return [row["completion_ids"] for row in rows], None

    def _generate_and_score_completions(self, inputs):
        out = super()._generate_and_score_completions(inputs)
        for row, advantage in zip(self.sampled, out["advantages"].tolist(), strict=True):
            assert abs(row["advantage"] - advantage) < 1e-5, (row, advantage)
        return out

    def compute_loss(self, *args, **kwargs):
        loss = super().compute_loss(*args, **kwargs)
        self.losses.append(loss.item())
        return loss


def trl_run(folder, dataset, model, rows, accumulation, config):
    iterations = config.get("num_iterations", 1)
    args = trl.GRPOConfig(
        output_dir=str(folder / "trl"), max_steps=STEPS * iterations, learning_rate=LR, optim="sgd",
        per_device_train_batch_size=PROMPTS * GROUP // accumulation, gradient_accumulation_steps=accumulation,
        lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=0.0, use_cpu=True, report_to=[], bf16=False,
        save_strategy="no", disable_tqdm=True, gradient_checkpointing=False, shuffle_dataset=False,
        num_generations=GROUP, max_completion_length=LENGTH, **config)
    trainer = Replayed(
        model=model, args=args, train_dataset=dataset, reward_funcs=REWARDS, processing_class=tokenizer())
    trainer.rows, trainer.losses = rows, []
    trainer.train()
    assert not trainer.rows
    parts = accumulation * iterations
    losses = [sum(trainer.losses[i:i + parts]) / iterations for i in range(0, len(trainer.losses), parts)]
    return losses, trainer.model


def check(binary, name, words=(), config=None, accumulation=1, adapter=False):
    config = config or {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        dataset, model = write_prompts(folder), small_model(folder)
        recipe = RECIPE
        if adapter:
            torch.manual_seed(11)
            lora = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM")
            model = peft.get_peft_model(model, lora)
            model.save_pretrained(folder / "adapter")
            recipe = recipe.replace("weights: theirs}\ntask", "weights: theirs, lora: {adapter: adapter}}\ntask")
        (folder / "job.yaml").write_text(recipe)
        models.accel_run(binary, folder, "job.yaml", f"train.micro_batch={PROMPTS // accumulation}", *words)
        run = folder / "runs/job"
        rows = [json.loads(line) for line in (run / "completions/rank_0.jsonl").read_text().splitlines()]
        assert len(rows) == STEPS * PROMPTS * GROUP, len(rows)
        ended = sum(not row["truncated"] for row in rows) / len(rows)
        expected, theirs = trl_run(folder, dataset, model, rows, accumulation, config)
        ours = models.losses_of(run)
        worst = max(abs(a - b) for a, b in zip(ours, expected, strict=True))
        assert worst < NEAR, (name, worst, ours, expected)
        far = "not compared"
        if not adapter:
            models.accel_run(binary, folder, "export", "runs/job", "--to", "ours")
            trained, before = load_file(folder / "ours/model.safetensors"), load_file(folder / "theirs/model.safetensors")
            weights = theirs.state_dict()
            far = max((trained[key] - weights[key]).abs().max().item() for key in trained)
            moved = max((trained[key] - before[key]).abs().max().item() for key in trained)
            assert far < 1e-4 * moved, (name, far, moved)
            far = f"{far:.1e} of {moved:.1e}"
        print(f"{name}: {STEPS} losses within {worst:.1e}, weights {far}, {ended:.0%} ended", flush=True)


REFERENCE = "task.reference={type: auto, weights: theirs}"


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for loss in ("dapo", "grpo", "dr_grpo", "bnpo"):
        check(binary, loss, [f"task.loss_type={loss}"], {"loss_type": loss})
    for loss in ("dapo", "grpo", "dr_grpo"):  # TRL shuffles completions among micro-batches
        check(binary, f"{loss}, 3 micro-batches", [f"task.loss_type={loss}"], {"loss_type": loss}, accumulation=3)
    for scale in ("batch", "none"):
        check(binary, f"scale_rewards {scale}", [f"task.scale_rewards={scale}"], {"scale_rewards": scale}, accumulation=2)
    check(binary, "beta", ["task.beta=0.3", REFERENCE], {"beta": 0.3})
    check(binary, "beta without correction", ["task.beta=0.3", "task.use_bias_correction_kl=false", REFERENCE],
          {"beta": 0.3, "use_bias_correction_kl": False})
    check(binary, "temperature", ["task.temperature=0.7", "task.beta=0.3", REFERENCE], {"temperature": 0.7, "beta": 0.3})
    check(binary, "weights and mask", ["task.reward_weights=[1, 2, 0.5]", "task.mask_truncated_completions=true"],
          {"reward_weights": [1.0, 2.0, 0.5], "mask_truncated_completions": True})
    check(binary, "two iterations", ["task.num_iterations=2", "task.epsilon=0.002", "task.epsilon_high=0.004"],
          {"num_iterations": 2, "epsilon": 0.002, "epsilon_high": 0.004})
    check(binary, "two iterations by sequence", ["task.num_iterations=2", "task.importance_sampling_level=sequence",
                                                 "task.epsilon=0.001"],
          {"num_iterations": 2, "importance_sampling_level": "sequence", "epsilon": 0.001})
    check(binary, "adapter", ["task.beta=0.3", REFERENCE], {"beta": 0.3}, adapter=True)


if __name__ == "__main__":
    main()
