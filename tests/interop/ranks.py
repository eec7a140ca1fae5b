"""Scripts in several processes over gloo, as torchrun starts them."""

import os
import subprocess
import sys

import torch


def launch(script, *words, processes=2):
    """Runs a script with `words` in each process and waits. Raises RuntimeError when one fails."""
    environment = dict(os.environ, ACCELERATE_USE_CPU="1", OMP_NUM_THREADS="1")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(processes),
               "--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0", script, *words]
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout


def leave():
    """Ends this process's part: one that leaves early aborts the others."""
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
