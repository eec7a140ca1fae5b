"""Compares preference tasks with TRL's trainers: data forms, losses, adapters.

    python tests/interop/check_preference.py ACCEL_RUN
"""

import json
import os
import random
import sys
import tempfile
from pathlib import Path

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import datasets
import peft
import torch
import transformers
import trl
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

import check_hf_models as models

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "recipes/tiny/data/talks"
STEPS = 20
BATCH = 6
LR = 5e-5
NEAR = 1e-6

RECIPE = f"""
name: job
model: {{type: auto, weights: theirs}}
task: {{type: dpo}}
data:
  train: {{type: preference, path: pairs.jsonl, tokenizer: "{TOKENIZER}"}}
  loader: {{shuffle: false}}
optimizer: {{type: adamw, lr: {LR}, weight_decay: 0}}
train: {{until: {STEPS} steps, batch: {BATCH}, max_grad_norm: none}}
accelerator: {{num_cpu_threads_per_process: 1, kernels: reference}}
"""

DPO_LOSSES = {
    "sigmoid": {}, "sigmoid_norm": {"beta": 0.7}, "hinge": {"beta": 0.02}, "ipo": {},
    "robust": {"label_smoothing": 0.1}, "exo_pair": {"label_smoothing": 0.1}, "nca_pair": {}, "bco_pair": {},
    "sppo_hard": {}, "apo_zero": {}, "apo_down": {},
}


def say(role, content):
    return {"role": role, "content": content}


def pair(draw):
    """A question with two answers of unequal lengths."""
    number = draw.randrange(9)
    words = draw.sample(["a fish", "a bird", "yes", "no", "and", "more"], 3)
    # Short: float32 has log-probabilities of few tokens within 1e-6 only.
    chosen = " ".join([str(number + 1), *words[:draw.randrange(2)]])
    rejected = " ".join([str(draw.randrange(10)), *words[1:draw.randrange(1, 3)]])
    return f"one more than {number}?", chosen, rejected


def explicit_messages(draw):
    question, chosen, rejected = pair(draw)
    prompt = [say("user", "a fish?"), say("assistant", "yes"), say("user", question)][-draw.choice((1, 3)):]
    return {"prompt": prompt, "chosen": [say("assistant", chosen)], "rejected": [say("assistant", rejected)]}


def implicit_messages(draw):
    row = explicit_messages(draw)
    return {key: row["prompt"] + row[key] for key in ("chosen", "rejected")}


def explicit_texts(draw):
    question, chosen, rejected = pair(draw)
    return {"prompt": question, "chosen": " " + chosen, "rejected": " " + rejected}


def texts_with_begin(draw):
    """TRL's trainers of ORPO and CPO put the token of a text's begin before each prompt, which those of DPO leave."""
    row = explicit_texts(draw)
    return {**row, "prompt": "<|endoftext|>" + row["prompt"]}


def implicit_texts(draw):
    row = explicit_texts(draw)
    return {key: "é " + row["prompt"] + row[key] for key in ("chosen", "rejected")}


def labelled_messages(draw):
    question, chosen, rejected = pair(draw)
    label = draw.random() < 0.8  # more desirable ones raise the divergence above 0
    return {"prompt": [say("user", question)], "completion": [say("assistant", chosen if label else rejected)], "label": label}


def labelled_texts(draw):
    question, chosen, rejected = pair(draw)
    label = draw.random() < 0.8  # more desirable ones raise the divergence above 0
    return {"prompt": question, "completion": " " + (chosen if label else rejected), "label": label}


def write_rows(folder, form):
    draw = random.Random(5)
    rows = [form(draw) for _ in range(STEPS * BATCH)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return datasets.Dataset.from_list(rows)


def small_model(folder, kind="CausalLM"):
    torch.manual_seed(7)
    tokenizer = transformers.AutoTokenizer.from_pretrained(TOKENIZER)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, num_labels=1 if kind != "CausalLM" else 2, hidden_size=36, intermediate_size=52, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=18, max_position_embeddings=1024, initializer_range=0.2)
    model_class = getattr(transformers, f"LlamaFor{kind}")
    model_class(config).save_pretrained(folder / "theirs")
    return model_class.from_pretrained(folder / "theirs", dtype=torch.float32)


def recorded(trainer_class):
    """The trainer on the CPU in the order of the rows, with its losses."""
    class Recorded(trainer_class):
        losses = None

        def _get_train_sampler(self, *args, **kwargs):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, *args, **kwargs):
            loss = super().compute_loss(*args, **kwargs)
            self.losses.append(loss.item())
            return loss

    return Recorded


def trl_losses(folder, trainer_class, config_class, rows, model, config, **more):
    args = config_class(
        output_dir=str(folder / "trl"), max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=LR,
        lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=0.0, use_cpu=True, report_to=[], bf16=False,
        save_strategy="no", disable_tqdm=True, gradient_checkpointing=False, **config)
    trainer = recorded(trainer_class)(
        model=model, args=args, train_dataset=rows,
        processing_class=transformers.AutoTokenizer.from_pretrained(TOKENIZER), **more)
    trainer.losses = []
    trainer.train()
    return trainer.losses


def compare(what, binary, folder, expected, *words):
    models.accel_run(binary, folder, "job.yaml", *words)
    losses = models.losses_of(folder / "runs/job")
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))
    assert worst < NEAR, (what, worst, losses, expected)
    print(f"{what}: {STEPS} losses within {worst:.1e}", flush=True)


def in_folder(check):
    def run(binary, *args):
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder), *args)
    return run


def option_words(options):
    return [f"task.{key}={value}" for key, value in options.items()]


@in_folder
def check_dpo(binary, folder, loss, form, words=(), config=None):
    rows, model = write_rows(folder, form), small_model(folder)
    (folder / "job.yaml").write_text(RECIPE.replace("{type: dpo}", "{type: dpo, reference: {type: auto, weights: theirs}}"))
    options = {"beta": 0.1, **DPO_LOSSES[loss]}
    expected = trl_losses(folder, trl.DPOTrainer, trl.DPOConfig, rows, model,
                          {"loss_type": [loss], **options, **(config or {})})
    compare(f"dpo, {loss}, {form.__name__} {' '.join(words)}", binary, folder, expected, f"task.loss_type={loss}",
            *option_words(options), *words)


def completed_texts(draw):
    """The prompt ends on the border of a token."""
    question, chosen, _ = pair(draw)
    return {"prompt": question, "completion": " " + chosen}


def completed_messages(draw):
    """Completions of one and of three messages."""
    question, chosen, rejected = pair(draw)
    more = [say("user", "a fish?"), say("assistant", rejected)]
    return {"prompt": [say("user", question)], "completion": [say("assistant", chosen), *more[:draw.choice((0, 2))]]}


@in_folder
def check_sft(binary, folder, form, completion_only):
    """Rows of a prompt and a completion, as SFTTrainer reads them."""
    rows, model = write_rows(folder, form), small_model(folder)
    chat = (f'{{type: chat, path: pairs.jsonl, tokenizer: "{TOKENIZER}", prompt: prompt, completion: completion, '
            f"answers: completion, answers_only: {str(completion_only).lower()}}}")
    head, _, tail = RECIPE.partition("  train: ")
    (folder / "job.yaml").write_text(head.replace("{type: dpo}", "causal_lm") + "  train: " + chat + "\n" + tail.partition("\n")[2])
    expected = trl_losses(folder, trl.SFTTrainer, trl.SFTConfig, rows, model, {"completion_only_loss": completion_only})
    compare(f"sft, {form.__name__}, completion_only_loss {completion_only}", binary, folder, expected)


@in_folder
def check_precomputed(binary, folder, task, options, adapter):
    """TRL, too, scores all rows with the reference before the first step."""
    form, kind = (explicit_messages, "preference") if task == "dpo" else (labelled_messages, "unpaired")
    rows, model = write_rows(folder, form), small_model(folder)
    recipe = RECIPE.replace("type: preference", f"type: {kind}")
    if adapter:
        torch.manual_seed(11)
        config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
        model = peft.get_peft_model(model, config)
        model.save_pretrained(folder / "adapter")
        recipe = recipe.replace("weights: theirs}\ntask", "weights: theirs, lora: {adapter: adapter}}\ntask")
    (folder / "job.yaml").write_text(recipe.replace(
        "{type: dpo}", f"{{type: {task}, reference: {{type: auto, weights: theirs}}, precompute_ref_log_probs: true}}"))
    trainer, config = (trl.DPOTrainer, trl.DPOConfig) if task == "dpo" else (trl.KTOTrainer, trl.KTOConfig)
    more = {"loss_type": [options["loss_type"]]} if task == "dpo" else {"train_sampling_strategy": "sequential"}
    expected = trl_losses(folder, trainer, config, rows, model, {"precompute_ref_log_probs": True, **options, **more})
    compare(f"{task} {options}, precomputed reference, {'adapter' if adapter else 'model'}", binary, folder, expected,
            *option_words(options), f"train.micro_batch={BATCH}")


@in_folder
def check_dpo_with_sft(binary, folder):
    rows, model = write_rows(folder, explicit_messages), small_model(folder)
    (folder / "job.yaml").write_text(RECIPE.replace("{type: dpo}", "{type: dpo, reference: {type: auto, weights: theirs}}"))
    expected = trl_losses(folder, trl.DPOTrainer, trl.DPOConfig, rows, model,
                          {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.4]})
    compare("dpo with cross-entropy", binary, folder, expected, "task.sft_weight=0.4")


@in_folder
def check_adapter(binary, folder, dropout):
    """The reference is the model without its adapter; PEFT draws the adapter."""
    rows, model = write_rows(folder, explicit_messages), small_model(folder)
    config = peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=dropout, target_modules=["q_proj", "v_proj", "down_proj"],
                             task_type="CAUSAL_LM")
    torch.manual_seed(11)
    theirs = peft.get_peft_model(model, config)
    theirs.save_pretrained(folder / "adapter")
    (folder / "job.yaml").write_text(
        RECIPE.replace("{type: dpo}", "{type: dpo, reference: {type: auto, weights: theirs}}")
        .replace("weights: theirs}\ntask", "weights: theirs, lora: {adapter: adapter}}\ntask"))
    expected = trl_losses(folder, trl.DPOTrainer, trl.DPOConfig, rows, theirs, {"beta": 0.1})
    compare(f"dpo, adapter of PEFT with dropout {dropout}", binary, folder, expected)


@in_folder
def check_kto(binary, folder, form, options, adapter):
    """The reference is the folder's model, or the model without the adapter that PEFT draws."""
    rows, model = write_rows(folder, form), small_model(folder)
    recipe = RECIPE.replace("preference", "unpaired")
    reference = "{type: auto, weights: theirs}"
    if adapter:
        torch.manual_seed(11)
        config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
        model = peft.get_peft_model(model, config)
        model.save_pretrained(folder / "adapter")
        recipe = recipe.replace("weights: theirs}\ntask", "weights: theirs, lora: {adapter: adapter}}\ntask")
    (folder / "job.yaml").write_text(recipe.replace("{type: dpo}", f"{{type: kto, reference: {reference}}}"))
    expected = trl_losses(folder, trl.KTOTrainer, trl.KTOConfig, rows, model,
                          {"train_sampling_strategy": "sequential", **options})
    compare(f"kto {options}, {form.__name__}, {'adapter' if adapter else 'model'}", binary, folder, expected, *option_words(options))


@in_folder
def check_orpo(binary, folder, form):
    rows, model = write_rows(folder, form), small_model(folder)
    (folder / "job.yaml").write_text(RECIPE)
    expected = trl_losses(folder, ORPOTrainer, ORPOConfig, rows, model, {"beta": 0.25, "max_length": 1024})
    compare(f"orpo, {form.__name__}", binary, folder, expected, "task.type=orpo", "task.beta=0.25")


@in_folder
def check_simpo(binary, folder, options, config):
    rows, model = write_rows(folder, texts_with_begin), small_model(folder)
    (folder / "job.yaml").write_text(RECIPE)
    expected = trl_losses(folder, CPOTrainer, CPOConfig, rows, model, {"loss_type": "simpo", "cpo_alpha": 0.0, **config})
    compare(f"simpo {options}", binary, folder, expected, "task.type=simpo", *option_words(options))


def messages_with_margin(draw):
    return {**explicit_messages(draw), "margin": round(draw.uniform(-1, 2), 2)}


@in_folder
def check_reward(binary, folder, coefficient, form=explicit_messages):
    """Trains a score head from a folder, and exports one that transformers loads."""
    rows, model = write_rows(folder, form), small_model(folder, "SequenceClassification")
    (folder / "job.yaml").write_text(RECIPE)
    expected = trl_losses(folder, trl.RewardTrainer, trl.RewardConfig, rows, model,
                          {"center_rewards_coefficient": coefficient or None})
    compare(f"reward, center {coefficient}, {form.__name__}", binary, folder, expected, "task.type=reward",
            f"task.center_rewards_coefficient={coefficient}")
    models.accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    ours, info = transformers.LlamaForSequenceClassification.from_pretrained(folder / "ours", output_loading_info=True)
    assert not any(info.values()), info
    tokens = torch.arange(1, 13).view(2, 6)
    far = (ours(tokens).logits - model.eval()(tokens).logits).abs().max().item()
    assert far < 1e-5, far


def main():
    for form in (completed_texts, completed_messages):
        for completion_only in (True, False):
            check_sft(sys.argv[1], form, completion_only)
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for form in (explicit_messages, implicit_messages, explicit_texts, implicit_texts):
        check_dpo(binary, "sigmoid", form)
    for loss in DPO_LOSSES:
        if loss != "sigmoid":
            check_dpo(binary, loss, explicit_messages)
    for end in ("keep_start", "keep_end"):
        # The prompts have nine tokens, with their answers twelve to eighteen.
        words = (f"data.train.truncation_mode={end}", "data.train.max_length=13")
        check_dpo(binary, "sigmoid", explicit_texts, words, {"truncation_mode": end, "max_length": 13})
    check_dpo_with_sft(binary)
    for adapter in (False, True):
        check_precomputed(binary, "dpo", {"loss_type": "sigmoid", "beta": 0.1}, adapter)
        check_precomputed(binary, "kto", {"beta": 0.3}, adapter)
    check_precomputed(binary, "dpo", {"loss_type": "ipo", "beta": 0.2}, False)
    check_precomputed(binary, "kto", {"loss_type": "apo_zero_unpaired", "beta": 0.3, "undesirable_weight": 0.7}, False)
    for dropout in (0.0, 0.3):
        check_adapter(binary, dropout)
    check_kto(binary, labelled_messages, {"beta": 0.1}, False)
    check_kto(binary, labelled_texts, {"beta": 0.5, "desirable_weight": 1.5, "undesirable_weight": 0.7}, False)
    check_kto(binary, labelled_messages, {"loss_type": "apo_zero_unpaired", "beta": 0.3}, False)
    check_kto(binary, labelled_messages, {"beta": 0.5}, True)
    check_orpo(binary, texts_with_begin)
    check_simpo(binary, {"beta": 2, "gamma": 1}, {"beta": 2.0, "simpo_gamma": 1.0})
    check_simpo(binary, {"beta": 1.5, "gamma": 0.3, "label_smoothing": 0.1, "sft_weight": 0.6},
                {"beta": 1.5, "simpo_gamma": 0.3, "label_smoothing": 0.1, "cpo_alpha": 0.6})
    for coefficient in (0, 0.05):
        check_reward(binary, coefficient)
    check_reward(binary, 0.05, messages_with_margin)


if __name__ == "__main__":
    main()
