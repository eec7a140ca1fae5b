"""Writes tests/unit/models/golden/hf/NAME: a folder of transformers' for each kind of model, with random weights,
and golden.json beside them: what transformers makes of each for given inputs."""

import json
import pathlib

import torch
import transformers
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/unit/models/golden/hf"

GPT2 = {"vocab_size": 29, "n_positions": 12, "n_embd": 8, "n_layer": 2, "n_head": 2, "bos_token_id": 0,
        "eos_token_id": 1}

BERT = {"vocab_size": 29, "max_position_embeddings": 12, "hidden_size": 8, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 12, "hidden_dropout_prob": 0.0}

DISTILBERT = {"vocab_size": 29, "max_position_embeddings": 12, "dim": 8, "n_layers": 2, "n_heads": 2,
              "hidden_dim": 12, "dropout": 0.0}

LLAMA = {"vocab_size": 29, "max_position_embeddings": 64, "hidden_size": 8, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 12, "head_dim": 4}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}

RESNET = {"num_channels": 2, "embedding_size": 2, "num_labels": 3}

# name: (class, config class, options)
CASES = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {**GPT2, "n_inner": 12, "activation_function": "relu",
                                               "layer_norm_epsilon": 1e-3, "resid_pdrop": 0.0}),
    "gpt2_untied": ("GPT2LMHeadModel", "GPT2Config", {**GPT2, "tie_word_embeddings": False}),
    "bert_classes": ("BertForSequenceClassification", "BertConfig", {**BERT, "num_labels": 3,
                                                                     "layer_norm_eps": 1e-6}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**LLAMA, "rope_parameters": LLAMA3, "attention_bias": True,
                                                  "mlp_bias": True}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**LLAMA, "sliding_window": None,
                                                        "tie_word_embeddings": True}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**LLAMA, "head_dim": 2, "num_key_value_heads": 4}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", LLAMA),
    "bert_tokens": ("BertForMaskedLM", "BertConfig", {**BERT, "hidden_act": "gelu_new"}),
    "vit": ("ViTForImageClassification", "ViTConfig", {
        "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "image_size": 6,
        "patch_size": 3, "num_channels": 2, "num_labels": 3, "qkv_bias": False, "layer_norm_eps": 1e-6}),
    "roberta_classes": ("RobertaForSequenceClassification", "RobertaConfig", {
        **BERT, "num_labels": 3, "type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "roberta_tokens": ("RobertaForMaskedLM", "RobertaConfig", {**BERT, "hidden_act": "gelu_new", "pad_token_id": 3}),
    "distilbert_classes": ("DistilBertForSequenceClassification", "DistilBertConfig", {
        **DISTILBERT, "num_labels": 3}),
    "distilbert_tokens": ("DistilBertForMaskedLM", "DistilBertConfig", {**DISTILBERT, "activation": "relu"}),
    "resnet_basic": ("ResNetForImageClassification", "ResNetConfig", {
        **RESNET, "layer_type": "basic", "depths": [2, 2, 2, 2], "hidden_sizes": [2, 4, 8, 16],
        "hidden_act": "silu"}),
    "resnet_bottleneck": ("ResNetForImageClassification", "ResNetConfig", {
        **RESNET, "layer_type": "bottleneck", "depths": [2, 2, 2, 2], "hidden_sizes": [8, 16, 32, 64],
        "downsample_in_bottleneck": True}),
    "bert_labels": ("BertForTokenClassification", "BertConfig", {**BERT, "num_labels": 5}),
    "roberta_labels": ("RobertaForTokenClassification", "RobertaConfig", {**BERT, "num_labels": 5}),
    "distilbert_labels": ("DistilBertForTokenClassification", "DistilBertConfig", {**DISTILBERT, "num_labels": 5}),
}

# What folders call a part of ViT and transformers' modules call otherwise.
STORED = [("vit.layers.", "vit.encoder.layer."), (".attention.q_proj.", ".attention.attention.query."),
          (".attention.k_proj.", ".attention.attention.key."), (".attention.v_proj.", ".attention.attention.value."),
          (".attention.o_proj.", ".attention.output.dense."), (".mlp.fc1.", ".intermediate.dense."),
          (".mlp.fc2.", ".output.dense.")]


def stored_name(model, name):
    for ours, stored in STORED if model.config.model_type == "vit" else []:
        name = name.replace(ours, stored)
    return name


def make(name, seed):
    class_name, config_class, options = CASES[name]
    torch.manual_seed(seed)
    model = getattr(transformers, class_name)(getattr(transformers, config_class)(**options))
    for parameter in model.parameters():  # norms and biases start at 1 and 0, which would show nothing
        torch.nn.init.normal_(parameter, std=0.2)
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            for values in (norm.weight.data, norm.running_var):
                torch.nn.init.uniform_(values, 0.5, 1.5)
            torch.nn.init.normal_(norm.running_mean, std=0.2)
            norm.num_batches_tracked.fill_(7)
    model.tie_weights()
    model.save_pretrained(ROOT / name)
    return model.eval()


def inputs_of(model, size=2, length=8):
    lengths = torch.tensor([length, length - 3])
    if model.config.model_type == "bert":
        return {"tokens": torch.randint(model.config.vocab_size, (size, length)), "lengths": lengths,
                "segments": torch.randint(2, (size, length))}
    if model.config.model_type == "roberta":
        tokens = torch.randint(model.config.vocab_size, (size, length))
        tokens[0, 2] = model.config.pad_token_id  # has its own place, also within a text
        segments = {"segments": torch.randint(2, (size, length))} if model.config.type_vocab_size > 1 else {}
        return {"tokens": tokens, "lengths": lengths, **segments}
    if model.config.model_type == "distilbert":  # of its fill, 0, the embedding is never trained
        return {"tokens": torch.randint(1, model.config.vocab_size, (size, length)), "lengths": lengths}
    if getattr(model.config, "vocab_size", None):
        return {"tokens": torch.randint(model.config.vocab_size, (size, length))}
    side = getattr(model.config, "image_size", 16)
    return {"pixels": torch.randn(size, model.config.num_channels, side, side)}


def run(model, inputs):
    """The logits, and of the mean of their cross-entropies with class 0 the gradients' norms and sums."""
    if "pixels" in inputs:
        logits = model(pixel_values=inputs["pixels"]).logits
    elif "lengths" in inputs:
        mask = torch.arange(inputs["tokens"].shape[1])[None] < inputs["lengths"][:, None]
        segments = {"token_type_ids": inputs["segments"]} if "segments" in inputs else {}
        logits = model(input_ids=inputs["tokens"], attention_mask=mask.long(), **segments).logits
    else:
        logits = model(input_ids=inputs["tokens"]).logits
    flat = logits.flatten(0, -2)
    loss = F.cross_entropy(flat, torch.zeros(len(flat), dtype=torch.long))
    loss.backward()
    gradients = {stored_name(model, name): [parameter.grad.norm().item(), parameter.grad.sum().item()]
                 for name, parameter in model.named_parameters()}
    return {"logits": logits.flatten().tolist(), "shape": list(logits.shape), "loss": loss.item(),
            "gradients": gradients}


def main():
    golden = {}
    for seed, name in enumerate(CASES, 1):
        model = make(name, seed)
        inputs = inputs_of(model)
        labels = {"labels": True} if "TokenClassification" in CASES[name][0] else {}
        golden[name] = {**labels, "inputs": {key: {"shape": list(value.shape), "values": value.flatten().tolist()}
                                   for key, value in inputs.items()}, **run(model, inputs)}
    (ROOT / "golden.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
