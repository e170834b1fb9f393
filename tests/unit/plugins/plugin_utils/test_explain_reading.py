# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How files are read: prefixes, line ends, cuts, ranks that interleave, several kinds and hosts in one file, size, secrets."""

from __future__ import annotations

import json
import pathlib
import random
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.plugin_utils import explain_source
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain import NetplanTree, TextFile, explain
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_files import inputs
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.redaction import MASK, mask_text
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import examples
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.explaining import FIXTURES, finding, ids, of_file, of_text

DEBUG = (FIXTURES / "explain/nccl-tests/all_gather_2ranks_socket_nccl_debug_info.txt").read_text(encoding="utf-8")
PERFTEST = (FIXTURES / "perftest/ib_write_bw-D3.client.txt").read_text(encoding="utf-8")
PREFIXES = {
    "tag of Open MPI 4": lambda line: f"[1,0]<stdout>:{line}",
    "tag of Open MPI 5": lambda line: f"[prterun-node1-17@1,0]<stdout>: {line}",
    "time": lambda line: f"2026-10-02 09:14:07 {line}",
    "time of ISO 8601": lambda line: f"2026-10-02T09:14:07.123Z {line}",
    "time in brackets, then tag": lambda line: f"[2026-10-02 09:14:07] [1,0]<stderr>:{line}",
    "tag, then time": lambda line: f"[1,0]<stdout>:2026-10-02 09:14:07.1 {line}",
    "line end of Windows": lambda line: f"{line}\r",
    "colours": lambda line: f"\x1b[0m{line}\x1b[31m",
}


def with_prefix(text: str, name: str) -> str:
    """Return a text with a prefix on every line."""
    return "\n".join(PREFIXES[name](line) for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("name", PREFIXES)
def test_prefixes_change_nothing(name: str) -> None:
    for text in (DEBUG, PERFTEST, (FIXTURES / "explain/field/F84-wrong-data.txt").read_text(encoding="utf-8")):
        plain, prefixed = of_text(text, rail_gbps=0.3), of_text(with_prefix(text, name), rail_gbps=0.3)
        assert [(entry["id"], entry["status"], entry["actual"]) for entry in prefixed["findings"]] == [
            (entry["id"], entry["status"], entry["actual"]) for entry in plain["findings"]
        ]


def test_prefixed_json_is_read() -> None:
    text = (FIXTURES / "explain/lab/iperf3-P1.json").read_text(encoding="utf-8")
    assert ids(of_text(with_prefix(text, "tag of Open MPI 4"))) == {"tcp.bandwidth"}


def test_ranks_that_interleave_are_taken_apart() -> None:
    table = (FIXTURES / "explain/field/F67-two-jobs.txt").read_text(encoding="utf-8").splitlines()
    halves = table[: len(table) // 2], table[len(table) // 2 :]
    mixed = [f"[1,{rank}]<stdout>:{line}" for pair in zip(*halves) for rank, line in enumerate(pair)]
    assert "nccl.not_one_job" in ids(of_text("\n".join(mixed)))
    untagged = [line for pair in zip(*halves) for line in pair]
    assert "nccl.not_one_job" in ids(of_text("\n".join(untagged)))


def test_records_that_begin_in_another_ones_line_are_read() -> None:
    text = "n2:2:2 [0] NCCL INFO Bootstrap\nn1:1:1 [0] NCCL INFO Using netn2:2:2 [0] NCCL INFO Using network Socket\nwork IB\n"
    document = of_text(text)
    assert [entry["nodes"] for entry in document["findings"] if entry["id"] == "nccl.transport" and entry["status"] == "fail"] == [["n2"]]


@examples(40)
@given(st.integers(min_value=0, max_value=len(DEBUG)))
def test_a_file_cut_anywhere_is_never_good(length: int) -> None:
    assert of_text(DEBUG[:length])["verdict"]["status"] == "fail"


def test_a_cut_table_is_incomplete() -> None:
    text = (FIXTURES / "explain/nccl-tests/all_reduce_2ranks_socket.txt").read_text(encoding="utf-8")
    assert "nccl.incomplete" in ids(of_text(text[: text.index("# Out of bounds")]))
    document = (FIXTURES / "explain/nccl-tests/all_reduce_2ranks_socket.json").read_text(encoding="utf-8")
    assert "nccl.incomplete" in ids(of_text(document[:3000]))


def test_several_kinds_in_one_file() -> None:
    parts = [
        (FIXTURES / "explain" / name).read_text(encoding="utf-8")
        for name in (
            "field/F40-pcie-width.txt",
            "field/F44-speed.txt",
            "field/F07-mtu-of-both-ends.txt",
            "situations/15-nic-powered-off-without-cable.txt",
            "field/F68-library.txt",
            "field/F01-twins-in-one-subnet.yaml",
        )
    ]
    document = of_text("\n".join([*parts, DEBUG, PERFTEST]))
    assert ids(document, "fail") >= {
        "pcie.width",
        "link.speed",
        "address.mtu",
        "link.no_cable",
        "launch.library_missing",
        "address.shared_network",
        "nccl.transport",
        "rdma.rail_bandwidth",
    }
    assert len(document["files"][0]["kinds"]) >= 8


def test_files_are_looked_at_together() -> None:
    lines = DEBUG.splitlines(keepends=True)
    of_rank = ["".join(line for line in lines if line.startswith(host)) for host in ("spark1", "spark2")]
    table = "".join(line for line in lines if not line.startswith("spark"))
    assert finding(of_text(table, *of_rank), "nccl.transport")["nodes"] == ["spark1", "spark2"]
    one = of_text(table, of_rank[0].replace("Socket", "IB"))
    assert finding(one, "nccl.transport")["status"] == "pass" or "spark2" in finding(one, "nccl.transport")["message"]
    assert one["verdict"]["status"] == "fail"  # spark2 said nothing


def test_two_runs_of_perftest_in_one_file() -> None:
    other = (FIXTURES / "perftest/tbf50-1to2.client.txt").read_text(encoding="utf-8")
    document = of_text(PERFTEST + other, rail_gbps=0.3)
    assert sorted(entry["actual"] for entry in document["findings"] if entry["id"] == "rdma.rail_bandwidth") == [0.026, 0.34]


def test_a_large_text_keeps_its_beginning_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_source, "HEAD_LIMIT", 2000)
    monkeypatch.setattr(explain_source, "TAIL_LINES", 50)
    document = of_text("orted: command not found\n" + "nothing\n" * 5000 + "Host key verification failed.\n")
    assert ids(document) == {"launch.daemon_missing", "launch.host_key", "explain.cut"}


def test_many_small_documents_cost_no_more_than_their_length() -> None:
    many = "".join(f'{{"n": {number}, "text": "{"x" * 80}"}}\n' for number in range(20000))
    started = time.process_time()
    document = of_text(many + (FIXTURES / "explain/lab/iperf3-P1.json").read_text(encoding="utf-8"))
    assert time.process_time() - started < 5
    assert document["files"][0]["kinds"] == ["iperf3"]


@pytest.mark.parametrize("behind", ["", "\n", " and words", "\n{ no JSON\n[1, 2\n"])
def test_documents_are_found_whatever_stands_behind(behind: str) -> None:
    text = (FIXTURES / "explain/lab/ip-link.json").read_text(encoding="utf-8").strip()
    assert "ip_link" in of_text(f"{{ no JSON either\n{text}{behind}")["files"][0]["kinds"]


def test_a_line_without_end_costs_no_memory(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"x" * 3_000_000 + b"\nHost key verification failed.\n")
    assert "launch.host_key" in ids(explain(inputs([str(path)])))


def test_bytes_that_are_no_text(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(random.Random(5).randbytes(100_000))
    assert ids(explain(inputs([str(path)]))) <= {"explain.unrecognised"}


@pytest.mark.parametrize(
    ("paths", "told"), [([], "explain_files is empty"), (["nowhere.log"], "nowhere.log does not exist"), (["/dev/null"], "no regular file")]
)
def test_a_file_that_cannot_be_read_is_named(paths: list[str], told: str) -> None:
    with pytest.raises(FabricError, match=told):
        inputs(paths)


def test_an_empty_folder_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FabricError, match="is empty"):
        inputs([str(tmp_path)])


SECRETS = ("hf_abcdefghijklmnopqrst", "hunter2hunter2", "AKIAABCDEFGHIJKLMNOP", "glpat-abcdefghij0123")
PLANTED = f"HF_TOKEN={SECRETS[0]} password: {SECRETS[1]} aws {SECRETS[2]} Authorization: Bearer {SECRETS[3]} https://me:{SECRETS[1]}@host/"


@pytest.mark.parametrize(
    "path",
    [
        path
        for folder in ("explain/field", "explain/nccl-tests", "explain/lab", "explain/situations", "perftest")
        for path in sorted((FIXTURES / folder).iterdir())
        if path.is_file()
    ],
    ids=lambda path: path.name,
)
def test_planted_secrets_go_nowhere(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    spread = "\n".join(f"{line} {PLANTED}" if line and place % 3 == 0 else line for place, line in enumerate(text.splitlines()))
    for variant in (f"{PLANTED}\n{text}\n{PLANTED}\n", spread, text.replace('"env": [', f'"env": ["{SECRETS[1]}", ')):
        told = json.dumps(of_text(variant))
        assert [secret for secret in SECRETS if secret in told] == []


def test_the_environment_in_json_is_dropped() -> None:
    told = json.dumps(of_file("explain/field/F82-environment.json", "explain/nccl-tests/all_reduce_2ranks_socket.json"))
    assert not any(word in told for word in ("planted", "HF_TOKEN", "example-not-a-secret", "NCCL_HOSTID"))


def test_masking_leaves_what_is_no_secret() -> None:
    for text in ("NCCL_IB_HCA=rocep1s0f0", "rank 0 keys 5", "192.0.2.1:18515", "Permission denied (publickey,password)."):
        assert mask_text(text) == text
    assert mask_text("export WANDB_API_KEY='abc def'") == f"export WANDB_API_KEY='{MASK}'"


@examples(60)
@given(
    st.lists(
        st.sampled_from(
            [
                *DEBUG.splitlines()[:40],
                *PERFTEST.splitlines(),
                "network: {",
                "network:",
                "{",
                "[",
                "[{}]",
                '{"results": {}}',
                "  - x",
                "\t",
                "null",
                '[{"ifname": 5}]',
                '[{"ifname": "enp1s0f0np0", "mtu": null, "addr_info": [null]}]',
                "network: {ethernets: {enp1s0f0np0: [1]}}",
                "network: {bonds: {b: {interfaces: [[1]]}}}",
            ]
        )
        | st.text(max_size=60),
        max_size=30,
    )
)
def test_no_text_breaks_it(lines: list[str]) -> None:
    document = of_text("\n".join(lines))
    assert document["verdict"]["status"] in ("pass", "fail")
    json.dumps(document)


TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.dates()
    | st.sampled_from(["10.20.0.1/24", "169.254.1.1/16", "10.20.0.2/30", "default", "enp1s0f0np0", "NetworkManager", "x"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            [
                "ethernets",
                "bonds",
                "enp1s0f0np0",
                "enP2p1s0f0np0",
                "enP7s7",
                "addresses",
                "mtu",
                "routes",
                "to",
                "renderer",
                "interfaces",
                "parameters",
                "mode",
                "dhcp4",
            ]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)


@examples(80)
@given(TREES, TREES)
def test_no_netplan_document_breaks_it(first: object, second: object) -> None:
    texts = [yaml.safe_dump({"network": {"version": 2, "ethernets": tree, "bonds": tree}}) for tree in (first, second)]
    json.dumps(explain([NetplanTree("tree", (("a.yaml", texts[0]), ("b.yaml", texts[1]))), TextFile("c.yaml", texts[0].splitlines(keepends=True))]))
