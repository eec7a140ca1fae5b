#!/usr/bin/env python3
"""Compares GGUF files of `export` with the gguf package, transformers and llama.cpp.

    python tests/interop/check_gguf.py ACCEL_RUN [CASE...]

llama.cpp is that of the package cyllama; without it, its part is left out, and said to be.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import gguf
import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

try:
    from cyllama.llama import llama_cpp
except ImportError:
    llama_cpp = None

ROOT = Path(__file__).resolve().parents[2]
VOCAB, CONTEXT = 320, 64
SMALL = {"vocab_size": VOCAB, "max_position_embeddings": CONTEXT, "hidden_size": 64, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "bos_token_id": 0,
         "eos_token_id": 1, "pad_token_id": 0}
GPT2_SMALL = {"vocab_size": VOCAB, "n_positions": CONTEXT, "n_embd": 64, "n_layer": 3, "n_head": 4, "bos_token_id": 0,
              "eos_token_id": 1}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 64}
ROPE = {"rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {**ROPE, "rope_type": "llama3", "rope_theta": 500.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONG_ROPE = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.1, 1.2, 1.5, 2.0, 2.5, 3.0, 3.5],
             "long_factor": [1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 7.0, 8.0]}
PLAIN = {"rope_type": "default", "rope_theta": 1e4}

CASES = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**SMALL, "rope_parameters": LLAMA3}),
    "llama_biases": ("LlamaForCausalLM", "LlamaConfig", {
        **SMALL, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "llama_yarn": ("LlamaForCausalLM", "LlamaConfig", {**SMALL, "rope_parameters": {**ROPE, "rope_type": "yarn"}}),
    "llama_linear": ("LlamaForCausalLM", "LlamaConfig", {
        **SMALL, "head_dim": 32, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}}),
    "llama_ragged": ("LlamaForCausalLM", "LlamaConfig", {**SMALL, "intermediate_size": 80}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**SMALL, "sliding_window": None}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**SMALL, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**SMALL, "head_dim": 32}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**SMALL, "sliding_window": CONTEXT}),
    "phi3_long": ("Phi3ForCausalLM", "Phi3Config", {
        **SMALL, "original_max_position_embeddings": 16, "rope_parameters": LONG_ROPE}),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", {**SMALL, "num_hidden_layers": 4}),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", {**SMALL, "head_dim": 32}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {
        **SMALL, "head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 8}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2_SMALL),
    "gpt2_untied": ("GPT2LMHeadModel", "GPT2Config", {**GPT2_SMALL, "tie_word_embeddings": False, "n_inner": 96}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {
        **SMALL, "sliding_window": None, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", {**SMALL, **EXPERTS, "shared_expert_intermediate_size": 32}),
    "qwen2_moe_tied": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", {
        **SMALL, **EXPERTS, "shared_expert_intermediate_size": 32, "qkv_bias": False, "tie_word_embeddings": True}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {
        **SMALL, **EXPERTS, "head_dim": 32, "norm_topk_prob": True}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {
        **SMALL, "num_hidden_layers": 7, "head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 8,
        "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e5},
                            "sliding_attention": PLAIN}}),
}
# transformers takes the rest of the others' sizes or positions from its defaults.
READ_BY_TRANSFORMERS = {"llama_ragged", "mistral", "qwen2"}
# Of the largest logit. llama.cpp's GELU, which is Gemma's and GPT-2's, is a table of float16 numbers.
KEPT_EXACT = (".ffn_gate_inp.weight", "position_embd.weight")  # in F32 whatever the type
TOLERANCE = {"f32": 1e-5, "f16": 0.01, "bf16": 0.05, "q8_0": 0.2}
GELU_TOLERANCE = 2e-3

PROMPT = "The model trains on two ranks of a machine"

RECIPE = """
name: job
model: {type: auto, weights: theirs}
data: {train: {type: npy, inputs: inputs.npy, targets: targets.npy}}
optimizer: {type: adamw, lr: 0.001}
train: {until: 2 steps, batch: 4}
accelerator: {num_cpu_threads_per_process: 1}
"""


def accel_run(binary, folder, *words):
    done = subprocess.run([binary, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def trained(binary, folder, name, **changes):
    """A run of a small model, in whose folder `theirs` may already have a tokenizer."""
    class_name, config_class, options = CASES[name]
    torch.manual_seed(7)
    model = getattr(transformers, class_name)(getattr(transformers, config_class)(**{**options, **changes}))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(6)  # so that tokens differ by more than rounding
            elif weight.abs().max() == 0:
                weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(folder / "theirs")
    random = np.random.default_rng(3)
    for part in ("inputs", "targets"):
        np.save(folder / f"{part}.npy", random.integers(1, VOCAB, (8, 16)))
    (folder / "job.yaml").write_text(RECIPE)
    accel_run(binary, folder, "job.yaml")
    accel_run(binary, folder, "export", "runs/job", "--to", "ours")
    return getattr(transformers, class_name).from_pretrained(folder / "ours").eval()


def tensors_of(path):
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


def check_types(folder, files):
    """The bytes of each type are those of the package's quantize()."""
    exact = tensors_of(files["f32"])
    for kind, wanted in (("f16", "F16"), ("bf16", "BF16"), ("q8_0", "Q8_0")):
        found = tensors_of(files[kind])
        assert found.keys() == exact.keys()
        for name, tensor in found.items():
            source = exact[name].data
            plain = len(tensor.shape) == 1 or name.endswith(KEPT_EXACT)
            own = "F32" if plain else "F16" if kind == "q8_0" and source.shape[-1] % 32 else wanted
            assert tensor.tensor_type.name == own, (name, tensor.tensor_type, own)
            expected = gguf.quants.quantize(source, tensor.tensor_type)
            assert tensor.data.tobytes() == expected.tobytes(), (kind, name)
    assert all(tensor.tensor_type.name == "F32" for tensor in exact.values())


def model_class():
    class Model(llama_cpp.LlamaModel):
        n_vocab = property(lambda self: self.get_vocab().n_vocab)  # which get_logits_ith() of the package wants
    return Model


def llama_logits(path, tokens, context=CONTEXT):
    """llama.cpp's logits behind the tokens, and its next 12 tokens."""
    parameters = llama_cpp.LlamaModelParams()
    parameters.n_gpu_layers = 0
    model = model_class()(str(path), parameters)
    options = llama_cpp.LlamaContextParams()
    options.n_ctx, options.n_threads, options.n_threads_batch = context, 1, 1
    options.type_k = options.type_v = 0  # float32
    options.flash_attn_type = 0
    state = llama_cpp.LlamaContext(model, options)
    rows, tokens = [], list(tokens)
    fresh, at = tokens, 0
    for _ in range(12):
        state.decode(llama_cpp.llama_batch_get_one(fresh, at))
        rows.append(np.array(state.get_logits_ith(-1), dtype=np.float32))
        at += len(fresh)
        fresh = [int(rows[-1].argmax())]
        tokens += fresh
    return np.stack(rows), tokens


def check_llama(model, files, name):
    if llama_cpp is None:
        return
    prompt = np.random.default_rng(5).integers(1, VOCAB, 20).tolist()
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False, eos_token_id=None,
                             attention_mask=torch.ones(1, len(prompt), dtype=torch.long))
        expected = model(out).logits[0, len(prompt) - 1:-1].numpy()
    for kind, path in files.items():
        logits, tokens = llama_logits(path, prompt)
        # Of the tokens that both have before them.
        same = next((i for i, (a, b) in enumerate(zip(tokens[20:], out[0, 20:].tolist())) if a != b), 11) + 1
        distances = np.abs(logits[:same] - expected[:same]).max(axis=1) / np.abs(expected).max()
        distance = distances.max()
        allowed = max(TOLERANCE[kind], GELU_TOLERANCE if name.startswith(("gemma", "gpt2")) else 0)
        # Rounding chooses another expert for some tokens.
        typical = np.median(distances) if "num_experts_per_tok" in CASES[name][2] and kind != "f32" else distance
        assert typical < allowed, (name, kind, distances)
        ours, theirs = tokens[20:], out[0, 20:].tolist()
        if ours != theirs:  # where two logits are nearer than their errors
            row = expected[same - 1]
            margin = (row[theirs[same - 1]] - row[ours[same - 1]]) / np.abs(expected).max()
            assert kind != "f32" and margin < 2 * distance, (name, kind, margin, distance, ours, theirs)
        print(f"  llama.cpp, {kind}: logits within {distance:.1e}")


def check_generation(binary, folder, tokenizer, path):
    """accel-run and llama.cpp make the same tokens greedily."""
    if llama_cpp is None:
        return
    done = accel_run(binary, folder, "generate", "runs/job", "--tokenizer", "theirs", "--prompt", PROMPT,
                     "--max-new-tokens", "12", "--temperature", "0", "--json")
    ours = json.loads(done.stdout)["token_ids"]
    prompt = tokenizer.encode(PROMPT).ids
    assert ROPE["original_max_position_embeddings"] < len(prompt) <= CONTEXT - 12, len(prompt)
    theirs = llama_logits(path, prompt)[1][len(prompt):]
    assert ours and ours == theirs[:len(ours)], (ours, theirs)
    print(f"  llama.cpp: the {len(ours)} tokens of generate")


def check_model(binary, folder, name):
    (folder / "theirs").mkdir()
    tokenizer = byte_level_tokenizer(GPT2, vocab_size=VOCAB - 8)
    tokenizer.save(str(folder / "theirs/tokenizer.json"))
    (folder / "theirs/tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    model = trained(binary, folder, name)
    files = {}
    for kind in ("f32", "f16", "bf16", "q8_0"):
        files[kind] = folder / f"{kind}.gguf"
        accel_run(binary, folder, "export", "runs/job", "--to", files[kind].name, "--gguf-type", kind)
    check_types(folder, files)
    if name in READ_BY_TRANSFORMERS:
        read = transformers.AutoModelForCausalLM.from_pretrained(
            folder, gguf_file="f32.gguf", dtype=torch.float32).eval()
        probe = torch.arange(1, 30).reshape(1, -1)
        with torch.no_grad():
            distance = (read(probe).logits - model(probe).logits).abs().max().item()
        assert distance < 1e-3, (name, distance)
        print(f"  transformers: logits within {distance:.1e}")
    check_llama(model, files, name)
    check_generation(binary, folder, tokenizer, files["f32"])
    print(f"{name}: {len(tensors_of(files['f32']))} tensors in 4 types")


def byte_level_tokenizer(splits, ignore_merges=False, normalizer=None, bos=False, vocab_size=560):
    """Trained on this repository's README."""
    out = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    out.pre_tokenizer, out.decoder = splits, decoders.ByteLevel()
    if normalizer:
        out.normalizer = normalizer
    out.train([str(ROOT / "README.md")], trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    out.add_tokens([tokenizers.AddedToken("[note]", normalized=False)])
    if bos:
        out.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    return out


def split_at(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
REGEX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TOKENIZERS = {
    "gpt-2": lambda: byte_level_tokenizer(GPT2, bos=True),
    "smollm": lambda: byte_level_tokenizer(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT2])),
    "llama-bpe": lambda: byte_level_tokenizer(split_at(REGEX), ignore_merges=True, bos=True),
    "dbrx": lambda: byte_level_tokenizer(split_at(REGEX)),
    "qwen2": lambda: byte_level_tokenizer(split_at(REGEX.replace("{1,3}", "")), normalizer=normalizers.NFC()),
    "tekken": lambda: byte_level_tokenizer(split_at(TEKKEN), ignore_merges=True, bos=True),
    "t5": lambda: unigram_tokenizer(),
}
TEXTS = ["Hello, world! It's 12345 o'clock", "  two  spaces\n\nand lines\t", "na\u00efve caf\u00e9 \u2013 \u6771\u4eac \U0001f642",
         "a", "1,234.5 we'LL CamelCase", "x [note] y</s>"]


BPE = {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
       "remove_extra_whitespaces": False, "user_defined_symbols": ["[note]"]}
UNIGRAM = {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc", "remove_extra_whitespaces": True}
UNIGRAM_PLAIN = {**UNIGRAM, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}


def sentencepiece_model(folder, **options):
    sentencepiece.SentencePieceTrainer.train(
        input=str(ROOT / "README.md"), model_prefix=str(folder / "tokenizer"), vocab_size=560, minloglevel=2, **options)
    (folder / "tokenizer.vocab").unlink()
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))


def as_tokenizer(pieces):
    """The tokenizer.json of a SentencePiece model, with a rule for each pair of pieces that is one."""
    rank = {pieces.id_to_piece(i): i for i in range(len(pieces))}
    merges = [(left, right) for text in rank for left, right in ((text[:i], text[i:]) for i in range(1, len(text)))
              if left in rank and right in rank and not pieces.is_byte(rank[text])]
    out = tokenizers.Tokenizer(models.BPE(rank, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    out.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    out.add_special_tokens(["<unk>", "<s>", "</s>"])
    out.add_tokens([tokenizers.AddedToken("[note]", normalized=False)])
    return out


def unigram_tokenizer():
    """T5's kind, trained on this repository's README, with the character map of a SentencePiece model."""
    out = tokenizers.Tokenizer(models.Unigram())
    with tempfile.TemporaryDirectory() as folder:
        sentencepiece_model(Path(folder), **UNIGRAM)
        model = sentencepiece_model_pb2.ModelProto.FromString((Path(folder) / "tokenizer.model").read_bytes())
    out.normalizer = normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap)
    out.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    out.train([str(ROOT / "README.md")], trainers.UnigramTrainer(
        vocab_size=560, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    out.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    return out


def check_tokenizer(binary, folder, name):
    """llama.cpp makes the tokens of the tokenizer in the folder that a model started from."""
    theirs = folder / "theirs"
    theirs.mkdir()
    if name.startswith("sentencepiece"):
        kind = UNIGRAM_PLAIN if "plain" in name else UNIGRAM if "unigram" in name else BPE
        pieces = sentencepiece_model(theirs, **kind)
        expected = [pieces.encode(text) for text in TEXTS[:-1]]
        if name.endswith(".json"):
            (theirs / "tokenizer.model").unlink()
            as_tokenizer(pieces).save(str(theirs / "tokenizer.json"))
    else:
        tokenizer = TOKENIZERS[name]()
        tokenizer.save(str(theirs / "tokenizer.json"))
        expected = [tokenizer.encode(text).ids for text in TEXTS]
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    (theirs / "tokenizer_config.json").write_text(json.dumps(
        {**({} if name == "t5" else {"bos_token": "<s>"}), "eos_token": "</s>", "chat_template": template}))
    trained(binary, folder, "mistral", vocab_size=576)
    done = accel_run(binary, folder, "export", "runs/job", "--to", "model.gguf")
    fields = gguf.GGUFReader(folder / "model.gguf").fields
    found = {key: field.contents() for key, field in fields.items() if key.startswith("tokenizer.")}
    assert found["tokenizer.chat_template"] == template
    assert len(found["tokenizer.ggml.tokens"]) == 576
    assert found["tokenizer.ggml.model"] == ("t5" if name == "t5" or "unigram" in name else
                                             "gpt2" if name in TOKENIZERS else "llama")
    if name in TOKENIZERS and name != "t5":
        assert found["tokenizer.ggml.pre"] == name, found["tokenizer.ggml.pre"]
        assert ("(NFC)" in done.stderr) == (name == "qwen2"), done.stderr
    if llama_cpp is not None:
        parameters = llama_cpp.LlamaModelParams()
        model = llama_cpp.LlamaModel(str(folder / "model.gguf"), parameters)
        vocabulary = model.get_vocab()
        assert (vocabulary.token_bos(), vocabulary.token_eos()) == tuple(
            found.get(f"tokenizer.ggml.{key}_token_id", -1) for key in ("bos", "eos"))
        for text, ids in zip(TEXTS, expected):
            ours = list(vocabulary.tokenize(text, add_special=True, parse_special=True))
            assert ours == ids, (name, text, ours, ids)
    print(f"tokenizer {name}: {len(expected)} texts")


def main():
    binary = Path(sys.argv[1]).resolve()
    torch.set_num_threads(1)
    if llama_cpp is None:
        print("without llama.cpp: the package cyllama is not there")
    else:
        llama_cpp.disable_logging()
    kinds = [*TOKENIZERS, "sentencepiece.model", "sentencepiece.json", "sentencepiece_unigram.model",
             "sentencepiece_unigram_plain.model"]
    for name in sys.argv[2:] or [*CASES, *(f"tokenizer:{kind}" for kind in kinds)]:
        with tempfile.TemporaryDirectory() as folder:
            if name in CASES:
                check_model(binary, Path(folder), name)
            else:
                check_tokenizer(binary, Path(folder), name.removeprefix("tokenizer:"))


if __name__ == "__main__":
    main()
