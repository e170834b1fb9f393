# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real NCCL over namespaces: several ranks on the GPUs of one machine, started by the collection as on real nodes.

    tests/gpu/run --programs ~/nccl-tests/build --libraries /usr/local/lib [--nodes 2] [--out DIR]

There is no RDMA device, so the first run has to find that NCCL fell back to TCP; the second expects sockets and has to pass. Both must have parsed
figures of every rank, in the plan's order. Needs root, a GPU, nccl-tests built with MPI, Open MPI, sshd, ip and ansible-playbook. With --stand-in no GPU
is needed, and nothing about transport is expected.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from namespaces import Cluster, NamespaceError  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Two ranks on one GPU: neither peer-to-peer nor shared memory, or NCCL would see through the namespaces.
SHARED_GPU = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--programs", required=True, help="folder with all_reduce_perf and its kin")
    parser.add_argument("--libraries", action="append", default=[], help="folder with libnccl.so.2")
    parser.add_argument("--largest", type=int, default=64 << 20, help="largest message in bytes")
    parser.add_argument("--collectives", default="all_reduce,all_gather")
    parser.add_argument("--out", type=pathlib.Path, help="folder for reports and logs")
    parser.add_argument("--stand-in", action="store_true", help="the programs are the lab's stand-in")
    return parser.parse_args()


def play(cluster: Cluster, options: argparse.Namespace, name: str, environment: dict[str, str]) -> dict:
    """Run the stage once and return the report."""
    inventory = cluster.inventory("fabric_topology: switch\n" + f"fabric_management_interface: enP7s7\nfabric_nccl_environment: {json.dumps(environment)}\n")
    out = (options.out or cluster.folder) / name
    extra = {
        "nccl_tests_programs": options.programs,
        "nccl_tests_libraries": options.libraries,
        "nccl_tests_largest_bytes": options.largest,
        "nccl_tests_collectives": options.collectives.split(","),
        "nccl_tests_require_gpu": not options.stand_in,
        "report_dir": str(out / "reports"),
        "nccl_tests_poll_seconds": 2,
    }
    done = subprocess.run(
        ["ansible-playbook", "-i", str(inventory), str(ROOT / "tests/gpu/nccl.yml"), "-e", json.dumps(extra)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOST_KEY_CHECKING": "True"},
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{name}: ansible-playbook ended with status {done.returncode}")
    if options.out:
        for node in cluster.nodes:
            state = node.folder / "run/dgxspark-fabric-nccl"
            subprocess.run(["cp", "-r", str(state), str(out / node.name)], capture_output=True, check=False)
    return json.loads((out / "reports/namespaces/latest/report.json").read_text(encoding="utf-8"))


def check(report: dict, name: str, nodes: list[str], transport: str | None) -> list[str]:
    """Return what is not as expected of a run."""
    wrong = []
    fact = next(iter(report["nccl"].values()), {})
    runs = fact.get("runs") or []
    print(
        f"== {name}: {fact.get('status')} {fact.get('message')} NCCL {sorted({node.get('nccl_version') for node in fact.get('nodes', {}).values()}, key=str)}"
    )
    for run in runs:
        last = run["rows"][-1] if run["rows"] else None
        print(
            f"   {run['id']} {run['status']} {run['message']} hosts {[device['host'] for device in run['devices']]} rows {len(run['rows'])} largest "
            f"{last and (last['size_bytes'], last['out_of_place']['busbw_gbytes_per_s'])} json {run.get('json')}"
        )
        for record in run["rank_records"]:
            log = record["log"] or {}
            print(f"     {record['node']}: exit {record['exit_code']} networks {log.get('networks')} channels {len(log.get('channels') or [])}")
        if run["status"] != "ok" or [device["host"] for device in run["devices"]] != run["nodes"] or not run["rows"]:
            wrong.append(f"{name}: {run['id']}: {run['status']} {run['message']}")
    if not runs or fact.get("order") != nodes:
        wrong.append(f"{name}: no runs, or the order is {fact.get('order')}")
    findings = {finding["id"]: finding for finding in report["findings"] if finding["layer"] == "nccl"}
    for finding in findings.values():
        print(f"   {finding['status']:8}{finding['id']}: {finding['message']}")
    found = findings.get("nccl.transport", {}).get("status")
    if found != transport:
        wrong.append(f"{name}: nccl.transport is {found} instead of {transport}")
    return wrong


def stop(_number: int, _frame: object) -> t.NoReturn:
    """End by way of the clean-up, also when a time limit (timeout, a CI job) ends the script: namespaces outlive it otherwise."""
    raise SystemExit("ended from outside; the nodes are removed")


def main() -> int:
    """Make the nodes, run twice, compare, remove the nodes."""
    options = arguments()
    signal.signal(signal.SIGTERM, stop)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fabric-gpu-", dir="/var/lib"))
    cluster = Cluster(folder / "nodes", options.nodes)
    nodes = [node.name for node in cluster.nodes]
    try:
        cluster.up()
        if options.stand_in:
            wrong = check(play(cluster, options, "stand-in", {}), "stand-in", nodes, None)
        else:
            wrong = check(play(cluster, options, "fallback", SHARED_GPU), "fallback", nodes, "fail")
            wrong += check(play(cluster, options, "socket", {**SHARED_GPU, "NCCL_NET": "Socket"}), "socket", nodes, "pass")
    except NamespaceError as error:
        wrong = [str(error)]
    finally:
        cluster.down()
        folder.rmdir()
    for text in wrong:
        print(f"FAILED: {text}", file=sys.stderr)
    print("all as expected" if not wrong else f"{len(wrong)} not as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
