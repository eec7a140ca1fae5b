"""What the card reaches by PyTorch's own operators.

    ceilings.py RESULT DEVICE

Copies in GB/s, read and written; matrix products of 8192 x 8192 in TFLOP/s; attention forward and backward of
16 x 16 heads x 2048 x 64, causal, in TFLOP/s.
"""

import json
import sys
import time

import torch
from torch.nn import functional as F

device = sys.argv[2]
side, large = (8192, 2**30) if device == "cuda" else (256, 2**22)


def seconds(run, repeats=10):
    for _ in range(3):
        run()
    if device == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / repeats
    begin = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - begin) / repeats


def attention():
    heads = 16 if device == "cuda" else 1
    length = 2048 if device == "cuda" else 64
    q, k, v = (torch.randn(16, heads, length, 64, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))

    def run():
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()

    return 3.5 * 4 * 16 * heads * length * length * 64 / 2 / seconds(run) / 1e12


def fp8():
    a = torch.randn(side, side, device=device).to(torch.float8_e4m3fn)
    b = torch.randn(side, side, device=device).to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=device)
    return 2 * side**3 / seconds(lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16)) / 1e12


def product(dtype):
    a = torch.randn(side, side, device=device, dtype=dtype)
    return 2 * side**3 / seconds(lambda: a @ a) / 1e12


source = torch.empty(large, dtype=torch.uint8, device=device)
target = torch.empty_like(source)
pinned = torch.empty(large // 4, dtype=torch.uint8, pin_memory=device == "cuda")
found = {
    "copy_gb_s": 2 * large / seconds(lambda: target.copy_(source)) / 1e9,
    "host_to_device_gb_s": large / 4 / seconds(lambda: target[:large // 4].copy_(pinned, non_blocking=True)) / 1e9,
    "fp32_tflops": product(torch.float32),
    "bf16_tflops": product(torch.bfloat16),
    "attention_tflops": attention(),
}
try:
    found["fp8_tflops"] = fp8()
except RuntimeError as error:
    found["fp8_tflops"] = f"none: {str(error).splitlines()[0][:100]}"
json.dump(found, open(sys.argv[1], "w"))
