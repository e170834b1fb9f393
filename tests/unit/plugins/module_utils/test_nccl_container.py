# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine's command lines, and the look into an image; the engine is a stand-in that runs the words on this machine with a clean environment."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
import typing as t

import pytest
from hypothesis import given, strategies

from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_container

# Not an engine: what stands behind the image's name in "run" is done here, under "env -i". States and answers come from files beside it.
STAND_IN = f"""#!{sys.executable}
# stand-in of a container engine
import os, pathlib, sys
here = pathlib.Path(sys.argv[0]).parent
words = sys.argv[1:]
with open(here / "calls", "a") as calls:
    calls.write(" ".join(words) + "\\n")
if (here / "refuses").exists():
    sys.exit((here / "refuses").read_text())
if words[:2] == ["image", "inspect"]:
    if not (here / "image").exists():
        sys.exit("Error: No such image: " + words[-1])
    print((here / "image").read_text())
elif words[0] == "pull":
    if not (here / "pulls").exists():
        sys.exit("denied: requested access to the resource is denied")
    (here / "image").write_text((here / "pulls").read_text())
elif words[0] == "ps":
    print((here / "ps").read_text() if (here / "ps").exists() else "")
elif words[0] == "run":
    if (here / "run-fails").exists():
        sys.exit("Error response from daemon: error gathering device information")
    place = next(at for at, word in enumerate(words) if word.startswith("--entrypoint="))
    environment = {{word[6:]: os.environ[word[6:]] for word in words[:place] if word.startswith("--env=")}}
    for word in words[:place]:
        if word.startswith("--env-file="):
            lines = pathlib.Path(word[11:]).read_text().splitlines()
            environment = {{**dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#"), **environment}}
    program = words[place][13:]
    os.execvpe(program, [program, *words[place + 2:]], {{"PATH": os.environ["PATH"], "HOME": str(here), **environment}})
"""
ARCHITECTURE = nccl_container.ARCHITECTURES.get(os.uname().machine, os.uname().machine)


def document(**changes: t.Any) -> dict[str, t.Any]:
    """Return what a rank hands to the program."""
    return {
        "image": "vllm-node:latest",
        "engine": "",
        "programs": "",
        "libraries": [],
        "options": ["--ipc=host", "--ulimit=memlock=-1:-1", "--device=/dev/infiniband"],
        "pull": False,
        "pull_seconds": 5,
        "mount": "/opt/bin",
        "run": "run1",
        "test": "all_reduce-all.1",
        "rank": 1,
        "user": [0, 0],
        "names": [],
        "ask_for": ["NCCL_SWITCHLESS_RING_ONLY", "NCCL_ALGO"],
        "program": "/opt/bin/all_reduce_perf",
        "arguments": ["-b", "8"],
        "seconds": 20,
        **changes,
    }


@pytest.fixture
def engine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return the folder of the stand-in, which has the image of this machine's architecture."""
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "docker").write_text(STAND_IN, encoding="utf-8")
    (folder / "docker").chmod(0o755)
    (folder / "image").write_text(f"sha256:{'ab' * 32} {ARCHITECTURE}", encoding="utf-8")
    monkeypatch.setattr(nccl_container.shutil, "which", lambda name: str(folder / "docker") if name == "docker" else None)
    return folder


@pytest.mark.parametrize(
    ("engine", "changes", "gpus", "device", "there", "absent"),
    [
        ("docker", {}, False, True, ["--network=host", "--pull=never", "--device=/dev/infiniband", "--ulimit=memlock=-1:-1", "--rm"], ["--gpus=all"]),
        ("docker", {}, True, True, ["--gpus=all"], ["--device=nvidia.com/gpu=all"]),
        ("podman", {}, True, True, ["--device=nvidia.com/gpu=all"], ["--gpus=all"]),
        ("docker", {"options": ["--gpus=device=0"]}, True, True, ["--gpus=device=0"], ["--gpus=all", "--ipc=host"]),
        ("docker", {}, False, False, [], ["--device=/dev/infiniband"]),
        ("docker", {"user": [1000, 1001]}, False, True, ["--user=1000:1001"], ["--userns=keep-id"]),
        ("podman", {"user": [1000, 1001]}, False, True, ["--userns=keep-id"], ["--user=1000:1001"]),
        ("docker", {"environment_file": "/etc/nccl.env"}, False, True, ["--env-file=/etc/nccl.env"], []),
        ("docker", {"names": ["X", "ABSENT"]}, False, True, ["--env=X"], ["--env=ABSENT"]),
        ("docker", {"folder": "/tmp/f"}, False, True, ["--volume=/tmp/f:/tmp/f", "--volume=/opt/bin:/opt/bin:ro"], []),
        ("docker", {"mount": ""}, False, True, [], ["--volume=/opt/bin:/opt/bin:ro"]),
    ],
)
def test_the_command_line(engine: str, changes: dict[str, t.Any], gpus: bool, device: bool, there: list[str], absent: list[str]) -> None:
    environment = {"OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "PMIX_INSTALL_PREFIX": "/usr", "PATH": "/bin", "X": "1", "FABRIC_NCCL_RUN": "run1.x"}
    command = nccl_container.run_command(f"/usr/bin/{engine}", document(**changes), environment, ["timeout", "-s", "KILL", "35", "prog"], gpus, device)
    options = command[: command.index("vllm-node:latest")]
    assert command[len(options) :] == ["vllm-node:latest", "-s", "KILL", "35", "prog"]
    assert {"--env=OMPI_COMM_WORLD_RANK", "--env=PMIX_RANK", "--env=FABRIC_NCCL_RUN", "--name=fabric-nccl-run1-all_reduce-all.1-rank1"} <= set(options)
    assert "--label=dgxspark.fabric.nccl=run1" in options and not {"--env=PATH", "--env=PMIX_INSTALL_PREFIX"} & set(options)
    assert set(there) <= set(options) and not set(absent) & set(options)


def test_the_daemons_folders_are_shared(tmp_path: pathlib.Path) -> None:
    environment = {"PMIX_SERVER_TMPDIR": str(tmp_path), "OMPI_MCA_orte_jobfam_session_dir": str(tmp_path / "none")}
    command = nccl_container.run_command("docker", document(), environment, ["true"], False, True)
    assert [word for word in command if word.startswith("--volume")] == [f"--volume={tmp_path}:{tmp_path}", "--volume=/opt/bin:/opt/bin:ro"]


def test_a_program_has_a_limit_of_its_own() -> None:
    assert nccl_container.program_entry(document()) == ["timeout", "-s", "KILL", "35", "/opt/bin/all_reduce_perf", "-b", "8"]
    words = nccl_container.program_entry(document(libraries=["/a", "/b"]))
    assert words[0] == "sh" and words[3:] == ["fabric", "/a:/b", "35", "/opt/bin/all_reduce_perf", "-b", "8"]


def test_a_look_reads_what_is_inside(engine: pathlib.Path, tmp_path: pathlib.Path) -> None:
    library, program = tmp_path / "lib/libnccl.so.2", tmp_path / "bin/all_reduce_perf"
    for path in (library, program):
        path.parent.mkdir()
    library.write_bytes(b"x\n\xff\0NCCL version 2.30.7+cuda13.0\0NCCL_SWITCHLESS_RING_ONLY\0NCCL_ALGO_MORE\0")
    program.write_text("#!/bin/sh\n# stand-in of dgxspark.fabric, Writing JSON output\n", encoding="utf-8")
    program.chmod(0o755)
    (engine / ".nccl.conf").write_text("# old\nNCCL_IB_GID_INDEX=3\nTOKEN=secret\n", encoding="utf-8")
    found = nccl_container.look(document(program=str(program), libraries=[str(library.parent)], seconds=120))
    assert found["problem"] is None and found["engine"] == "docker" and found["image_id"] == "ab" * 32
    assert found["complete"] and found["lacks"] == [] and found["program"] == str(program) and found["stand_in"] and found["writes_json"]
    assert found["nccl_library"] == str(library) and found["nccl_version"] == "2.30.7"
    assert found["known"] == {"NCCL_SWITCHLESS_RING_ONLY": True, "NCCL_ALGO": False}
    assert found["configurations"][str(engine / ".nccl.conf")] == {"NCCL_IB_GID_INDEX": "3"} and found["environment"] == {}
    limit = subprocess.run(["sh", "-c", "ulimit -l"], capture_output=True, text=True, check=True).stdout.strip()
    assert found["memlock_bytes"] == ("unlimited" if limit == "unlimited" else int(limit) * 1024)
    calls = (engine / "calls").read_text(encoding="utf-8")
    assert "pull " not in calls and "ps -a --filter label=dgxspark.fabric.nccl " in calls


def change(engine: pathlib.Path, name: str, text: str | None) -> None:
    """Put a file beside the stand-in, or take it away."""
    path = engine / name
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("files", "changes", "problem", "words"),
    [
        ({"image": None}, {}, "image_missing", "No such image"),
        ({"refuses": "permission denied while trying to connect to the Docker daemon socket"}, {}, "engine_refused", "permission denied"),
        ({"refuses": "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?"}, {}, "engine_refused", "Cannot connect"),
        ({"image": "sha256:12 riscv64"}, {}, "architecture", f"riscv64 instead of {ARCHITECTURE}"),
        ({}, {"engine": "podman"}, "engine_missing", ""),
        ({"image": None}, {"pull": True}, "pull_failed", "denied"),
        ({"run-fails": ""}, {}, "not_started", "device information"),
    ],
)
def test_what_stands_in_the_way(engine: pathlib.Path, files: dict[str, str | None], changes: dict[str, t.Any], problem: str, words: str) -> None:
    for name, text in files.items():
        change(engine, name, text)
    found = nccl_container.look(document(**changes))
    assert found["problem"]["id"] == problem and words in found["problem"]["text"]
    if not changes.get("pull"):
        calls = engine / "calls"
        assert not calls.exists() or "pull " not in calls.read_text(encoding="utf-8")


def test_an_image_is_pulled_when_that_is_asked_for(engine: pathlib.Path) -> None:
    change(engine, "pulls", (engine / "image").read_text(encoding="utf-8"))
    change(engine, "image", None)
    found = nccl_container.look(document(pull=True, seconds=120))
    assert found["problem"] is None and "pull vllm-node:latest" in (engine / "calls").read_text(encoding="utf-8")


def test_what_still_runs_is_removed_and_told(engine: pathlib.Path) -> None:
    change(engine, "ps", "abc fabric-nccl-run1-x-rank0 running\ndef fabric-nccl-run1-y-rank0 exited\n")
    assert nccl_container.end({"run": "run1"}) == ["container fabric-nccl-run1-x-rank0"]
    calls = (engine / "calls").read_text(encoding="utf-8").splitlines()
    assert calls[0].startswith("ps -a --filter label=dgxspark.fabric.nccl=run1 ") and calls[1:] == ["rm -f abc", "rm -f def"]


def test_a_run_becomes_the_program(engine: pathlib.Path, tmp_path: pathlib.Path) -> None:
    settings = tmp_path / "nccl.env"
    settings.write_text("# why\nNCCL_ALGO=Ring\nNCCL_DEBUG=WARN\n", encoding="utf-8")
    given = document(program="/usr/bin/env", arguments=[], environment_file=str(settings), names=["NCCL_DEBUG"], mount="")
    environment = {
        **os.environ,
        "PATH": f"{engine}:{os.environ['PATH']}",
        "NCCL_DEBUG": "INFO",
        "OMPI_COMM_WORLD_RANK": "1",
        "LD_LIBRARY_PATH": "/host",
        "HOST_ONLY": "1",
    }
    done = subprocess.run(
        [sys.executable, nccl_container.__file__, "run", json.dumps({**given, "engine": "docker"})],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and {"NCCL_ALGO=Ring", "NCCL_DEBUG=INFO", "OMPI_COMM_WORLD_RANK=1"} <= set(lines), done.stderr
    assert not any(line.startswith(("HOST_ONLY", "LD_LIBRARY_PATH")) for line in lines)


def test_the_limit_inside_ends_a_program(engine: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_container, "LIMIT_MARGIN", 0)
    began = time.monotonic()
    entry = nccl_container.program_entry(document(program="sleep", arguments=["60"], seconds=1))
    assert subprocess.run(entry, check=False).returncode and time.monotonic() - began < 20


@given(strategies.text(alphabet=strategies.sampled_from("@ab/=.\n -1") | strategies.characters(), max_size=400))
def test_any_text_of_a_look_is_read(text: str) -> None:
    found = nccl_container.parse_look(text, ["NCCL_ALGO"])
    assert isinstance(found["complete"], bool) and json.dumps(found)
