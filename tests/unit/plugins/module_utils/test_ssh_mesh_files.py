# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The user's ssh files: everything outside the block stays byte for byte; and what a failed pair says."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from ansible_collections.dgxspark.fabric.plugins.module_utils import ssh_mesh_files, ssh_mesh_user
from ansible_collections.dgxspark.fabric.plugins.module_utils.ssh_mesh_files import BEGIN, END, SshMeshError, UserFiles
from ansible_collections.dgxspark.fabric.plugins.module_utils.ssh_mesh_user import Account
from hypothesis import given
from hypothesis import strategies as st

PLAIN = st.text(st.characters(codec="ascii", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e"), max_size=200).filter(lambda text: "dgxspark" not in text)
LINES = st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=30), min_size=1, max_size=4)


@given(PLAIN, LINES, LINES, st.booleans())
def test_a_block_comes_changes_and_goes_without_a_trace(text, first, second, top):
    once = ssh_mesh_files.with_block(text, first, top)
    assert ssh_mesh_files.block(once) == first
    twice = ssh_mesh_files.with_block(once, second, top)
    assert ssh_mesh_files.block(twice) == second
    assert ssh_mesh_files.with_block(twice, second, top) == twice
    gone = ssh_mesh_files.with_block(twice, [])
    assert gone == text or (gone == text + "\n" and not top and text)


def test_a_damaged_block_is_not_guessed():
    with pytest.raises(SshMeshError, match="/home/x/.ssh/config holds the line"):
        ssh_mesh_files.with_block(f"{BEGIN}\nHost a\n", ["x"], path="/home/x/.ssh/config")


def test_files_of_a_home(tmp_path):
    files = UserFiles(str(tmp_path))
    assert files.state() == {"public_key": None, "authorized_keys": [], "config": [], "known_hosts": [], "too_open": []}
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/config").write_text("Compression yes\n")
    (tmp_path / ".ssh/config").symlink_to(tmp_path / "dotfiles/config")
    (tmp_path / ".ssh/authorized_keys").write_text("ssh-rsa mine")
    (tmp_path / ".ssh/authorized_keys").chmod(0o664)
    wanted = (["ssh-ed25519 A dgxspark-fabric:spark2"], ["spark2 ssh-ed25519 B"], ["Host spark2", "Host *"])
    assert len(files.write(*wanted)) == 4, "three files, and one mode"
    assert files.write(*wanted) == []
    assert (tmp_path / "dotfiles/config").read_text() == f"{BEGIN}\nHost spark2\nHost *\n{END}\nCompression yes\n"
    assert (tmp_path / ".ssh/config").is_symlink()
    assert (tmp_path / ".ssh/authorized_keys").read_text() == f"ssh-rsa mine\n{BEGIN}\n{wanted[0][0]}\n{END}\n"
    assert (tmp_path / ".ssh/authorized_keys").stat().st_mode & 0o777 == 0o600
    (tmp_path / ".ssh/authorized_keys").write_text(f"ssh-rsa mine\n{BEGIN}\n{END}\n")
    assert len(files.remove()) == 3 and files.remove() == []
    assert (tmp_path / ".ssh/authorized_keys").read_text() == "ssh-rsa mine\n"
    assert (tmp_path / "dotfiles/config").read_text() == "Compression yes\n"


def test_host_keys(tmp_path):
    (tmp_path / "etc/ssh").mkdir(parents=True)
    (tmp_path / "etc/ssh/ssh_host_rsa_key.pub").write_text("ssh-rsa R root@x\n")
    (tmp_path / "etc/ssh/ssh_host_ed25519_key.pub").write_text("ssh-ed25519 E root@x\n")
    (tmp_path / "etc/ssh/ssh_host_ed25519_key").write_text("private")
    assert ssh_mesh_files.host_keys(str(tmp_path)) == ["ssh-ed25519 E", "ssh-rsa R"]


def me(home: pathlib.Path) -> Account:
    return Account("root" if os.geteuid() == 0 else "me", os.geteuid(), os.getegid(), str(home))


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="ssh-keygen is not installed")
def test_a_key_pair_is_made_and_a_broken_one_is_seen(tmp_path):
    user = me(tmp_path)
    assert not ssh_mesh_user.pair_is_whole(user)
    ssh_mesh_user.make_key(user, "dgxspark-fabric:spark1")
    key = tmp_path / ssh_mesh_files.KEY
    assert key.stat().st_mode & 0o777 == 0o600 and ssh_mesh_user.pair_is_whole(user)
    first = UserFiles(str(tmp_path)).public_key()
    assert first and first.startswith("ssh-ed25519 ")
    old = key.read_bytes()
    ssh_mesh_user.make_key(user, "dgxspark-fabric:spark1")
    assert UserFiles(str(tmp_path)).public_key() != first
    key.write_bytes(old)
    assert not ssh_mesh_user.pair_is_whole(user)


def test_who_the_user_is():
    with pytest.raises(SshMeshError, match="there is no user 'nobody-knows-me' on this node: create it, or set fabric_ssh_user"):
        ssh_mesh_user.account("nobody-knows-me")
    assert ssh_mesh_user.account(None, {}).uid == os.geteuid()


@pytest.mark.parametrize(("said", "words"), [
    ("Host key verification failed.", "somebody answers in its place"),
    ("spark@10.77.0.12: Permission denied (publickey).", "AllowUsers"),
    ("ssh: connect to host 10.77.0.12 port 22: Connection timed out", "firewall"),
    ("something else", "by hand"),
])
def test_a_failed_pair_says_command_user_and_key(said, words):
    targets = [{"node": "spark2", "names": ["spark2", "10.77.0.12"], "user": "you"}, {"node": "spark3", "names": ["spark3"], "user": "spark"}]
    user = Account("spark", 1000, 1000, "/home/spark")
    failures = ssh_mesh_user.prove(user, "spark1", targets, 10, lambda account, argv, seconds: (0, "") if "spark3" in argv else (255, f"Warning: x\n{said}"))
    assert [failure["command"] for failure in failures] == [f"ssh -o BatchMode=yes -o ConnectTimeout=10 {name} true" for name in ("spark2", "10.77.0.12")]
    message = failures[0]["message"]
    assert message.startswith("spark1 does not reach spark2: as user spark on spark1") and words in message
    assert "key /home/spark/.ssh/dgxspark_fabric_ed25519" in message and "user you there" in message and said in message
