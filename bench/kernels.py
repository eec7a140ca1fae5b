"""Each fused kernel beside its reference, by Google Benchmark; medians of the rounds."""

import json
import subprocess

from sides import environment, program

THREADS = 1


def run(words, folder):
    try:
        binary = program(words, "kernel_speed")
    except FileNotFoundError as error:
        print(f"  left out: {error}, with libbenchmark-dev installed")
        return {}
    command = [binary, "--benchmark_format=json", f"--benchmark_repetitions={words.rounds}"]
    if words.short:
        command.append("--benchmark_min_time=0.001")
    done = subprocess.run([str(word) for word in command], cwd=folder, env=environment(THREADS), check=True, text=True,
                          stdout=subprocess.PIPE)
    wanted = "median" if words.rounds > 1 else ""
    times = {each["run_name"].removesuffix("/real_time"): each["real_time"] for each in json.loads(done.stdout)["benchmarks"]
             if each.get("aggregate_name", "") == wanted}
    for name, fused in times.items():
        if "/fused/" in name:
            reference = times[name.replace("/fused/", "/reference/")]
            print(f"  {name.replace('/fused/', ', '):36}{fused / 1e6:9.3f} ms, reference {reference / 1e6:9.3f} ms,"
                  f" {reference / fused:5.2f}x as fast")
    return {"nanoseconds": times}
