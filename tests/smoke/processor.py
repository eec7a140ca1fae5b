"""What of this machine's processor decides which bits libtorch computes."""

import pathlib


def kind():
    """As "GenuineIntel 6 avx512": MKL and oneDNN choose their loops by the maker, the family and the instructions."""
    facts = dict(line.split(":", 1) for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    flags = facts.get("flags", "").split()
    kinds = (("avx512 amx", "amx_tile"), ("avx512", "avx512f"), ("avx2", "avx2"))
    best = next((name for name, flag in kinds if flag in flags), "plain")
    return f"{facts.get('vendor_id', 'unknown')} {facts.get('cpu family', '?')} {best}"
