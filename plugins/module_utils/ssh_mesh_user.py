# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Act as the user of the ssh mesh: make the key pair, and prove that other nodes are reached without any question.

Files below a home directory are written with the user's own rights, never with root's: a link there must not lead root anywhere.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pwd
import shlex
import subprocess
import typing as t
from dataclasses import dataclass

from ansible_collections.dgxspark.fabric.plugins.module_utils.command import SEARCH_PATH
from ansible_collections.dgxspark.fabric.plugins.module_utils.ssh_mesh_files import KEY, SshMeshError, UserFiles

AT_ONCE = 8
HINTS = (
    ("Host key verification failed", "The host key differs from the one that the node itself shows: run provisioning again; if it stays, somebody answers in "
     "its place"),
    ("Permission denied", "There sshd does not take the key: see AllowUsers and AuthorizedKeysFile in its sshd_config, and the permissions of the home "
     "directory"),
    ("Connection refused", "No sshd answers there"),
    ("timed out", "Nothing answers: see the firewall and the management network"),
    ("No route to host", "See the management network between the two"),
    ("Could not resolve", "The name is unknown there: set fabric_management_address to an address"),
)


@dataclass(frozen=True)
class Account:
    """A user of the node."""

    name: str
    uid: int
    gid: int
    home: str


def account(name: str | None, environment: t.Mapping[str, str] | None = None) -> Account:
    """Return the user of the mesh: the named one, else the one who became root by sudo, else the process's own.

    Raises:
        SshMeshError: The node has no such user, or this process may not act for it.
    """
    values = os.environ if environment is None else environment
    wanted = name or (values.get("SUDO_USER") if os.geteuid() == 0 else None) or pwd.getpwuid(os.geteuid()).pw_name
    try:
        entry = pwd.getpwnam(wanted)
    except KeyError as exc:
        raise SshMeshError(f"there is no user {wanted!r} on this node: create it, or set fabric_ssh_user") from exc
    if os.geteuid() not in (0, entry.pw_uid):
        raise SshMeshError(f"only root or {wanted} itself may set up ssh for {wanted}: use become")
    if not os.path.isdir(entry.pw_dir):
        raise SshMeshError(f"{wanted} has no home directory: {entry.pw_dir} is missing")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


@contextlib.contextmanager
def rights_of(user: Account) -> t.Iterator[None]:
    """Act with a user's rights for a while."""
    if os.geteuid() != 0:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    os.setgroups(os.getgrouplist(user.name, user.gid))
    os.setegid(user.gid)
    os.seteuid(user.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def run_as(user: Account, argv: t.Sequence[str], timeout: float) -> tuple[int, str]:
    """Run a program as a user, with no terminal and no input; return its status (124 past the deadline) and what it said on standard error."""
    more: dict[str, t.Any] = {}
    if os.geteuid() == 0:
        more = {"user": user.uid, "group": user.gid, "extra_groups": os.getgrouplist(user.name, user.gid)}
    environment = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name, "PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                              timeout=timeout, check=False, env=environment, cwd=user.home, start_new_session=True, **more)
    except subprocess.TimeoutExpired:
        return 124, f"no end within {timeout:g} s"
    except OSError as exc:
        return 127, f"{argv[0]}: {exc.strerror}; the package openssh-client brings it"
    return done.returncode, done.stderr.strip()


def make_key(user: Account, comment: str) -> None:
    """Make a new key pair in place of an old one. The private key stays on this node.

    Raises:
        SshMeshError: ssh-keygen is missing or fails.
    """
    key = os.path.join(user.home, KEY)
    new = f"{key}.new"
    with rights_of(user):
        os.makedirs(os.path.dirname(key), mode=0o700, exist_ok=True)
        for path in (new, f"{new}.pub"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    status, said = run_as(user, ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", new], 30)
    if status:
        raise SshMeshError(f"ssh-keygen failed with status {status}: {said or 'no message'}")
    with rights_of(user):
        # The public key first: a pair whose halves differ is seen, and made again.
        os.rename(f"{new}.pub", f"{key}.pub")
        os.rename(new, key)


def pair_is_whole(user: Account) -> bool:
    """Tell whether the pair is there and its halves belong together."""
    if UserFiles(user.home).public_key() is None:
        return False
    key = os.path.join(user.home, KEY)
    more: dict[str, t.Any] = {"user": user.uid, "group": user.gid} if os.geteuid() == 0 else {}
    try:
        done = subprocess.run(["ssh-keygen", "-y", "-P", "", "-f", key], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False,
                              env={"PATH": SEARCH_PATH, "HOME": user.home}, **more)
    except (OSError, subprocess.TimeoutExpired):
        return True  # it cannot be asked; the proof will tell
    with rights_of(user):
        return done.returncode == 0 and done.stdout.split()[:2] == (UserFiles(user.home).public_key() or "").split()


def proof_command(target: str, seconds: int) -> list[str]:
    """Return the command that proves that a node is reached."""
    return ["ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={seconds}", target, "true"]


def hint(said: str) -> str:
    """Return what a message of ssh means here."""
    return next((text for words, text in HINTS if words.lower() in said.lower()), "Run the command by hand on that node")


def prove(user: Account, node: str, targets: t.Sequence[t.Mapping[str, t.Any]], seconds: int,
          run: t.Callable[[Account, t.Sequence[str], float], tuple[int, str]] = run_as) -> list[dict[str, t.Any]]:
    """Connect to every target; return the pairs that failed, each with the exact command, user and key.

    Args:
        user: Who connects.
        node: This node's name, for the messages.
        targets: Each with ``node``, ``names`` and ``user``.
        seconds: How long one connection may take to come up.
        run: Runs a command as a user.
    """
    todo = [(target, name) for target in targets for name in target["names"]]

    def one(item: tuple[t.Mapping[str, t.Any], str]) -> dict[str, t.Any] | None:
        target, name = item
        command = proof_command(name, seconds)
        status, said = run(user, command, seconds + 20.0)
        if status == 0:
            return None
        text = shlex.join(command)
        last = said.splitlines()[-1] if said else f"status {status}"
        return {"from": node, "to": target["node"], "user": user.name, "peer_user": target.get("user"), "command": text, "key": os.path.join(user.home, KEY),
                "said": said[-500:],
                "message": f"{node} does not reach {target['node']}: as user {user.name} on {node}, \"{text}\" (key {os.path.join(user.home, KEY)}, user "
                           f"{target.get('user') or user.name} there) said: {last.rstrip('.')}. {hint(said)}"}

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return [failure for failure in pool.map(one, todo) if failure is not None]
