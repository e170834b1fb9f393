# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inference end to end, without the lab: the role installs the real load generator, which measures llama.cpp's server and one that is broken on purpose.

What is installed stays below INFERENCE_CACHE (by default ~/.cache/dgxspark-fabric-tests), 1.4 GB, and is used again.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = pathlib.Path(__file__).resolve().parent / "inference"
CACHE = pathlib.Path(os.environ.get("INFERENCE_CACHE", "~/.cache/dgxspark-fabric-tests")).expanduser()
FAULTY = ROOT / "tests/unit/plugins/module_utils/openai_server.py"
#: llama.cpp's server as a package, and what writes its files.
SERVER = ("xllamacpp==2026.10.11549", "gguf==0.19.0")
PYTHONS = ("3.12", "3.13", "3.11")
INVENTORY = "spark:\n  vars: {fabric_topology: pair}\n  hosts: {spark1: , spark2: }\n"

pytestmark = pytest.mark.long


def find_python() -> str:
    """Return an interpreter that the load generator is for."""
    versions = pathlib.Path("~/.pyenv/versions").expanduser()
    for version in PYTHONS:
        found = shutil.which(f"python{version}") or next((str(path) for path in versions.glob(f"{version}.*/bin/python{version}")), None)
        if found and subprocess.run([found, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return found
    pytest.skip(f"no Python {', '.join(PYTHONS)} on this machine for the load generator")


def started(command: list[str]) -> tuple[subprocess.Popen[str], str]:
    """Start a server and return it with the URL that it prints."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return process, process.stdout.readline().strip()


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's server with a tiny model; its URL."""
    environment = CACHE / "llama"
    program = environment / "bin/python"
    if not (environment / ".complete").exists():
        subprocess.run([find_python(), "-m", "venv", "--clear", str(environment)], check=True)
        subprocess.run([program, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:", *SERVER], check=True)
        (environment / ".complete").touch()
    model = tmp_path_factory.mktemp("model") / "tiny.gguf"
    subprocess.run([program, PARTS / "tiny_model.py", model], check=True)
    process, url = started([str(program), str(PARTS / "serve.py"), str(model)])
    yield url
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory, llama: str) -> str:
    """Folder of a tokenizer; the environment that writes it is made by the role, for a first run that needs the tokenizer and says so."""
    folder = tmp_path_factory.mktemp("tokenizer")
    done, written = play(folder, llama, str(folder / "none"), requests=2, concurrency=[1])
    assert done.returncode == 2, done.stdout
    assert [finding["id"] for finding in written["verdict"]["findings"] if finding["status"] == "fail"] == ["inference.generator"], done.stdout
    assert "inference_bench_tokenizer" in done.stdout
    (program,) = CACHE.glob("aiperf-*/bin/python")
    subprocess.run([program, PARTS / "tiny_tokenizer.py", folder / "tokenizer"], check=True)
    return str(folder / "tokenizer")


def play(folder: pathlib.Path, url: str, tokenizer: str, **more: Any) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the playbook from the controller; return how it ended and what it wrote."""
    (folder / "inventory.yml").write_text(INVENTORY, encoding="utf-8")
    out = folder / "inference.json"
    out.unlink(missing_ok=True)
    options = {
        "url": url, "from": "localhost", "tokenizer": tokenizer, "environment": str(CACHE), "python": find_python(), "state_directory": str(folder / "state"),
        "input_tokens": 64, "output_tokens": 24, "requests": 40, "warmup_requests": 4, "concurrency": [1, 4], "stall_seconds": 5, "request_seconds": 8,
        "quantisation": "F32", "out": str(out), "report_dir": str(folder / "reports"), **more}
    variables = json.dumps({f"inference_bench_{name}": value for name, value in options.items()})
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(collections(folder)), "HF_HUB_OFFLINE": "1", "ANSIBLE_NOCOLOR": "1"}
    command = [shutil.which("ansible-playbook") or str(pathlib.Path(sys.executable).parent / "ansible-playbook"), str(ROOT / "playbooks/inference.yml")]
    done = subprocess.run(
        [*command, "-i", str(folder / "inventory.yml"), "-e", variables],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=3600, check=False)
    return done, json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}


def collections(folder: pathlib.Path) -> pathlib.Path:
    """Return a folder of collections with this one in it."""
    link = folder / "collections/ansible_collections/dgxspark/fabric"
    if not link.exists():
        link.parent.mkdir(parents=True)
        link.symlink_to(ROOT)
    return folder / "collections"


def test_a_real_server_is_measured_by_the_real_load_generator(tmp_path: pathlib.Path, llama: str, tokenizer: str) -> None:
    done, written = play(tmp_path, llama, tokenizer)
    assert done.returncode == 0, done.stdout + done.stderr
    fact, verdict = written["inference"], written["verdict"]
    assert (fact["status"], verdict["status"]) == ("done", "pass")
    assert [run["conditions"]["concurrency"] for run in fact["runs"]] == [1, 4]
    for run in fact["runs"]:
        assert (run["requests"], run["errors"], run["nodes"]) == ({"ok": 40, "failed": 0}, 0, 2)
        assert run["throughput_tokens_per_s"] > 0
        assert all(0 < run[measure]["p50"] <= run[measure]["p95"] <= run[measure]["p99"] for measure in ("ttft_ms", "request_ms"))
        assert run["measured_output_tokens"] == 24
        assert run["conditions"]["stack"].startswith("llama.cpp") and run["conditions"]["context_tokens"] == 2048
    assert f"{fact['runs'][0]['conditions']['model']} on 2 nodes, 1 at once: " in done.stdout


@pytest.mark.parametrize(("fault", "check", "kind"), [
    ("some_http", "inference.http", "http"), ("some_stalled", "inference.stalled", "stalled"), ("some_truncated", "inference.truncated", "truncated"),
    ("some_ended_early", "inference.truncated", "truncated")])
def test_faults_that_only_load_shows_have_their_findings(tmp_path: pathlib.Path, tokenizer: str, fault: str, check: str, kind: str) -> None:
    process, url = started([sys.executable, str(FAULTY), fault])
    try:
        done, written = play(tmp_path, url, tokenizer, requests=12, concurrency=[4])
    finally:
        process.kill()
        process.wait()
    assert done.returncode == 2, done.stdout + done.stderr
    assert [finding["id"] for finding in written["verdict"]["findings"] if finding["status"] in ("fail", "unknown")] == [check], done.stdout
    (run,) = written["inference"]["runs"]
    assert [failure["kind"] for failure in run["failures"]] == [kind]
    assert 0 < run["errors"] < 12


@pytest.mark.parametrize(("fault", "check"), [
    ("refused", "inference.refused"), ("http", "inference.http"), ("silent", "inference.stalled"), ("stalled", "inference.stalled"),
    ("truncated", "inference.truncated")])
def test_a_broken_endpoint_is_told_before_any_load(tmp_path: pathlib.Path, fault: str, check: str) -> None:
    process, url = started([sys.executable, str(FAULTY), "good" if fault == "refused" else fault])
    if fault == "refused":
        process.kill()
        process.wait()
    try:
        done, written = play(tmp_path, url, "unused")
    finally:
        process.kill()
        process.wait()
    assert done.returncode == 2, done.stdout + done.stderr
    assert [finding["id"] for finding in written["verdict"]["findings"] if finding["status"] == "fail"] == [check]
    assert written["inference"]["runs"] == []
