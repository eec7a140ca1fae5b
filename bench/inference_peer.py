"""The other sides of inference.py, in a Python with torch and transformers; llama.cpp is that of the package cyllama.

    inference_peer.py make KIND FOLDER          a folder of transformers with random weights
    inference_peer.py bandwidth                 bytes per second that a sum of float32 reads
    inference_peer.py first FOLDER              the first token of transformers
    inference_peer.py transformers JOB          seconds per step of its generate()
    inference_peer.py llama_cpp JOB             seconds per step of llama.cpp
    inference_peer.py gguf FOLDER TYPE FILE     the folder's weights for llama.cpp

JOB is JSON: folder, type, batch, prompt (tokens), tokens (new ones) and threads. The last line of output is JSON.
"""

import json
import sys
import time

SIZES = {
    "gpt2-124m": {},
    "llama-1.1b": {"vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
                   "num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 2048},
    "llama-1gb": {"vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 15,
                  "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 1024},
    "llama-small": {"vocab_size": 2000, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 1024},
}
LLAMA_TYPES = {"fp32": "f32", "bf16": "bf16", "int8": "q8_0", "nf4": "q4_0"}


def character(token):
    """Each token is one character, which a terminal shows at once."""
    return chr(0x4E00 + token) if token < 20000 else chr(0x20000 + token - 20000)


def make(kind, folder):
    import torch
    from tokenizers import Tokenizer, decoders, models
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(3)
    ends = {"bos_token_id": None, "eos_token_id": None}
    torch.set_default_dtype(torch.float32 if kind != "llama-1.1b" else torch.bfloat16)
    if kind.startswith("gpt2"):
        model = GPT2LMHeadModel(GPT2Config(**SIZES[kind], **ends))
    else:
        model = LlamaForCausalLM(LlamaConfig(**SIZES[kind], **ends, tie_word_embeddings=False))
    model.save_pretrained(folder)
    vocab = {character(i): i for i in range(model.config.vocab_size)}
    tokenizer = Tokenizer(models.BPE(vocab, merges=[]))
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False).save_pretrained(folder)
    numbers = {name: weight.numel() for name, weight in model.named_parameters()}
    head = model.get_output_embeddings().weight.numel()
    linear = sum(module.weight.numel() for name, module in model.named_modules()
                 if type(module).__name__ in ("Linear", "Conv1D") and name != "lm_head")
    return {"parameters": sum(numbers.values()), "linear": linear, "head": head}


def bandwidth():
    import torch

    torch.set_num_threads(THREADS)
    numbers = torch.ones(1 << 28)
    seconds = []
    for _ in range(7):
        begin = time.perf_counter()
        numbers.sum()
        seconds.append(time.perf_counter() - begin)
    return {"bytes_per_second": numbers.nbytes / min(seconds)}


def loaded(folder, kind):
    import torch
    import transformers

    weights, *more = kind.split("-")
    dtype = torch.bfloat16 if "bf16" in kind else torch.float32
    quantization = {"int8": {"load_in_8bit": True},
                    "nf4": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": dtype}}
    options = {"dtype": dtype}
    if weights in quantization:
        head = {"llm_int8_skip_modules": []} if "head" in more else {}
        options["quantization_config"] = transformers.BitsAndBytesConfig(**quantization[weights], **head)
        options["device_map"] = "cpu"
    return transformers.AutoModelForCausalLM.from_pretrained(folder, **options).eval()


def first(folder):
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = loaded(folder, "fp32")
    prompt = tokenizer("".join(map(character, range(10, 26))), return_tensors="pt")
    with torch.no_grad():
        out = model.generate(**prompt, max_new_tokens=1, do_sample=False, pad_token_id=0)
    print("first token", int(out[0, -1]), flush=True)
    return {}


def use_transformers(job):
    """Steps after the first, of two lengths, so that the prompt does not count."""
    import torch

    torch.set_num_threads(job["threads"])
    model = loaded(job["folder"], job["type"])
    prompts = torch.tensor([[10 + row + i for i in range(job["prompt"])] for row in range(job["batch"])])

    def seconds(tokens):
        begin = time.perf_counter()
        with torch.no_grad():
            model.generate(prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=tokens, do_sample=False,
                           pad_token_id=0)
        return time.perf_counter() - begin

    seconds(2)
    return {"seconds": (seconds(1 + job["tokens"]) - seconds(1)) / job["tokens"]}


def gguf_file(folder, kind, path):
    """Weights as they are: their order within heads does not change the work."""
    import gguf
    import safetensors.torch
    import torch
    from cyllama.llama import llama_cpp
    from pathlib import Path

    config = json.loads((Path(folder) / "config.json").read_text())
    writer = gguf.GGUFWriter(path + ".bf16", "llama")
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for file in sorted(Path(folder).glob("*.safetensors")):
        for name, weight in safetensors.torch.load_file(file).items():
            wide = weight.float().numpy()
            to = names.get_name(name, try_suffixes=(".weight",))
            if wide.ndim == 1:
                writer.add_tensor(to, wide)
                continue
            bits = weight.to(torch.bfloat16).view(torch.uint8).numpy()
            writer.add_tensor(to, bits, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    options = llama_cpp.LlamaModelQuantizeParams()
    types = gguf.LlamaFileType
    options.ftype = {"f32": types.ALL_F32, "bf16": types.MOSTLY_BF16, "q8_0": types.MOSTLY_Q8_0,
                     "q4_0": types.MOSTLY_Q4_0}[LLAMA_TYPES[kind.split("-")[0]]].value
    options.nthread, options.allow_requantize, options.pure = THREADS, True, True
    llama_cpp.model_quantize(path + ".bf16", path, options)
    Path(path + ".bf16").unlink()
    return {}


def use_llama_cpp(job):
    from cyllama.llama import llama_cpp

    llama_cpp.disable_logging()
    parameters = llama_cpp.LlamaModelParams()
    parameters.n_gpu_layers = 0
    model = llama_cpp.LlamaModel(job["file"], parameters)
    options = llama_cpp.LlamaContextParams()
    rows, prompt = job["batch"], job["prompt"]
    options.n_ctx, options.n_seq_max = rows * (prompt + job["tokens"] + 8), rows
    options.n_batch = options.n_ubatch = max(64, rows * prompt)
    options.n_threads = options.n_threads_batch = job["threads"]
    context = llama_cpp.LlamaContext(model, options)
    for row in range(rows):
        batch = llama_cpp.LlamaBatch(n_tokens=prompt, embd=0, n_seq_max=rows)
        for i in range(prompt):
            batch.add(10 + row + i, i, [row], i == prompt - 1)
        context.decode(batch)

    def step(i):
        batch = llama_cpp.LlamaBatch(n_tokens=rows, embd=0, n_seq_max=rows)
        for row in range(rows):
            batch.add(100 + i, prompt + i, [row], True)
        context.decode(batch)
        context.synchronize()

    step(0)
    begin = time.perf_counter()
    for i in range(job["tokens"]):
        step(1 + i)
    return {"seconds": (time.perf_counter() - begin) / job["tokens"]}


THREADS = 2

if __name__ == "__main__":
    verb, *words = sys.argv[1:]
    calls = {"make": make, "bandwidth": bandwidth, "first": first, "gguf": gguf_file,
             "transformers": lambda job: use_transformers(json.loads(job)),
             "llama_cpp": lambda job: use_llama_cpp(json.loads(job))}
    print(json.dumps(calls[verb](*words)))
