# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print how long ``explain`` takes for a generated log of NCCL of 64 MB, and how much memory; for 16 MB beside it, to show that memory is flat.

python tests/bench/explain_log.py [MB ...]
"""

from __future__ import annotations

import importlib
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit"))

importlib.import_module("conftest")  # makes the collection importable

BUDGET_SECONDS = 10.0
#: Beyond what the interpreter and the collection's modules take.
BUDGET_MEGABYTES = 64.0
FLAT_MEGABYTES = 8.0
LINES = (
    "{host}:{pid}:{tid} [0] NCCL INFO Channel {channel:02d}/0 : {rank}[0] -> {next}[0] [send] via NET/IB/{device}\n",
    "{host}:{pid}:{tid} [0] NCCL INFO Connected to proxy localRank 0 -> connection 0x7fd524{number:06x}\n",
    "[2026-10-02 09:14:07] {host}:{pid}:{tid} [0] NCCL INFO New proxy send connection {number} from local rank 0, transport 2\n",
    "{host}:{pid}:{tid} [0] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x7f0000{number:06x} count 1048576 "
    "datatype 7 op 0 root 0 comm 0x5559 [nranks=4] stream 0x55\n",
    "[1,{rank}]<stdout>:{host}:{pid}:{tid} [0] transport/net_ib.cc:150 NCCL WARN "
    "NET/IB : Got completion from peer 10.0.0.{rank}<4791> with status=12 len {number}\n",
)


def write_log(path: pathlib.Path, megabytes: int) -> None:
    """Write a log of the given size, as of four ranks."""
    size = 0
    number = 0
    with path.open("w", encoding="utf-8") as stream:
        for rank in range(4):
            head = (
                f"spark{rank}:{900 + rank}:1 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE [RO]; OOB enP7s7:192.0.2.{rank + 1}<0>\n"
                f"spark{rank}:{900 + rank}:1 [0] NCCL INFO Using network IB\n"
            )
            size += stream.write(head)
        while size < megabytes * 10**6:
            rank = number % 4
            size += stream.write(
                LINES[number % len(LINES)].format(
                    host=f"spark{rank}",
                    pid=900 + rank,
                    tid=1000 + number % 7,
                    channel=number % 16,
                    rank=rank,
                    next=(rank + 1) % 4,
                    device=number % 2,
                    number=number,
                )
            )
            number += 1


def measure(path: str) -> dict[str, float]:
    """Explain one file in this process; return seconds and the growth of memory in MB."""
    from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain import explain
    from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_files import inputs

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    document = explain(inputs([path]))
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "megabytes": (after - before) / 1024, "peak_megabytes": after / 1024, "findings": len(document["findings"])}


def bench(megabytes: int) -> dict[str, float]:
    """Measure one size in a process of its own, so that peak memory is that of this size alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "nccl.log"
        write_log(path, megabytes)
        done = subprocess.run([sys.executable, __file__, "--one", str(path)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main(arguments: list[str]) -> int:
    """Print one line a size; the status is 1 when a budget is exceeded."""
    if arguments[:1] == ["--one"]:
        print(json.dumps(measure(arguments[1])))
        return 0
    sizes = [int(argument) for argument in arguments] or [16, 64]
    results = {size: bench(size) for size in sizes}
    good = True
    for size, result in results.items():
        holds = result["seconds"] <= BUDGET_SECONDS and result["megabytes"] <= BUDGET_MEGABYTES
        good = good and holds
        print(
            f"explain a log of NCCL, {size} MB: {result['seconds']:.2f} s (at most {BUDGET_SECONDS:g}), "
            f"memory +{result['megabytes']:.1f} MB, peak {result['peak_megabytes']:.0f} MB, "
            f"{'pass' if holds else 'FAIL'}"
        )
    growth = results[sizes[-1]]["megabytes"] - results[sizes[0]]["megabytes"]
    flat = growth <= FLAT_MEGABYTES
    print(f"memory from {sizes[0]} to {sizes[-1]} MB: {growth:+.1f} MB (at most {FLAT_MEGABYTES:g}), {'pass' if flat else 'FAIL'}")
    return 0 if good and flat else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
