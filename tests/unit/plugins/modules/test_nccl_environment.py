# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment that is installed follows the library that will be loaded: libraries with and without the switchless variable, and the wrong library."""

from __future__ import annotations

import hashlib
import json
import pathlib
import typing as t

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_library import MARKER
from ansible_collections.dgxspark.fabric.plugins.modules import nccl_environment
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.healthy import plan_of

CHANNELS = ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")


def make_library(folder: pathlib.Path, *names: str) -> str:
    """Write what is read of a library, which are the texts in it; return its SHA-256."""
    folder.mkdir()
    content = b"\0".join([b"", b"NCCL version 2.30.7+cuda13.0", *(name.encode() for name in names), b""])
    (folder / "libnccl.so.2").write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def install(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], **options: t.Any) -> tuple[int, dict[str, t.Any]]:
    """Run the module for the first node of a ring of four; return its exit status and result."""
    plan = plan_of("ring", 4)
    given = {
        "node": "spark1",
        "environment": plan["nodes"]["spark1"]["nccl_environment"],
        "hostfile": plan["hostfile"],
        "shape": plan["shape"],
        "libraries": [str(tmp_path / "lib")],
        "path": str(tmp_path / "etc/nccl.env"),
        "hostfile_path": str(tmp_path / "etc/hostfile"),
    }
    warnings: list[str] = []
    with pytest.MonkeyPatch.context() as patch, patch_module_args({**given, **options}), pytest.raises(SystemExit) as ended:
        # Where another test has made this process a controller, ansible-core shows warnings instead of returning them.
        patch.setattr(AnsibleModule, "warn", lambda module, text: warnings.append(text))
        nccl_environment.main()
    return t.cast(int, ended.value.code), {**json.loads(capsys.readouterr().out), "warnings": warnings}


def test_a_library_with_the_switchless_variable_gets_it(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_library(tmp_path / "lib", MARKER, *CHANNELS, *(entry["name"] for entry in plan_of("ring", 4)["nodes"]["spark1"]["nccl_environment"]))
    code, result = install(tmp_path, capsys)
    lines = (tmp_path / "etc/nccl.env").read_text(encoding="utf-8").splitlines()
    assert code == 0 and result["changed"] and {f"{MARKER}=1", "NCCL_ALGO=Ring", *(f"{name}=4" for name in CHANNELS)} <= set(lines)
    assert not result["warnings"] and not any(line.startswith("NCCL_DEBUG") for line in lines)
    assert install(tmp_path, capsys)[1]["changed"] is False


def test_a_library_without_it_gets_a_warning_that_names_the_risk(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_library(tmp_path / "lib", "NCCL_ALGO")
    code, result = install(tmp_path, capsys)
    text = (tmp_path / "etc/nccl.env").read_text(encoding="utf-8")
    assert code == 0 and "NCCL_ALGO=Ring" in text and MARKER not in text and "NCHANNELS" not in text
    assert any("ncclTransportTreeConnect" in warning for warning in result["warnings"])
    assert any("NCCL_IB_SUBNET_AWARE_ROUTING" in warning and "ignores it" in warning for warning in result["warnings"])


@pytest.mark.parametrize(
    ("library", "given", "words"), [(True, "ab" * 32, "expected " + "ab" * 32), (False, "ab" * 32, "correct fabric_nccl_prefix"), (True, None, "")]
)
@pytest.mark.parametrize("check", [False, True])
def test_another_library_than_the_one_named_is_refused(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], library: bool, given: str | None, words: str, check: bool
) -> None:
    found = make_library(tmp_path / "lib", MARKER) if library else ""
    code, result = install(tmp_path, capsys, sha256=given or found.upper(), _ansible_check_mode=check)
    assert (code == 0) is (given is None) and words in result.get("msg", "")
    assert (tmp_path / "etc/nccl.env").exists() is (given is None and not check)
    if given:
        assert result["msg"].startswith("spark1: ") and found in result["msg"] and "fabric_nccl_source" in result["msg"]
