# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The journal and the dead-man timer of a change: what was there before, and a script that brings it back by itself.

Before a change the old bytes and a shell script are written below /var/lib/dgxspark-fabric/pending, and two things are armed: a
systemd timer that runs the script after a while, and a unit that runs it at the next boot. Confirming the change disarms both.
So neither a dead controller, nor a killed module, nor a reboot leaves an unconfirmed change behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import shlex
import shutil
import time
import typing as t
from dataclasses import dataclass

from ansible_collections.dgxspark.fabric.plugins.module_utils import managed_file
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Planned
from ansible_collections.dgxspark.fabric.plugins.module_utils.provision_record import STATE_DIRECTORY, Record

UNIT_DIRECTORY = "/etc/systemd/system"
PROFILES = "/etc/NetworkManager/"
UNIT = "dgxspark-fabric-rollback"
WANTS = "multi-user.target.wants"

BOOT_UNIT = f"""\
# Managed by dgxspark.fabric; there only while a change waits to be confirmed.
[Unit]
Description=Take back a change of the fabric's network settings that was not confirmed before a reboot
ConditionPathExists={STATE_DIRECTORY}/pending/journal.json
After=systemd-networkd.service NetworkManager.service dbus.service

[Service]
Type=oneshot
ExecStart=/bin/sh {STATE_DIRECTORY}/pending/rollback.sh

[Install]
WantedBy=multi-user.target
"""


class DeadManError(RuntimeError):
    """The change cannot be made safe, so it is not made."""


def _restore_live(planned: t.Iterable[Planned], live: t.Mapping[str, Live]) -> list[str]:
    """Return shell lines that bring back what netplan leaves on interfaces when a file goes: addresses, MTU, ARP settings."""
    lines = []
    for interface in planned:
        before = live[interface.name]
        if not before.exists:
            continue
        name = shlex.quote(interface.name)
        if interface.address and interface.address not in before.addresses:
            lines.append(f"ip addr del {shlex.quote(interface.address)} dev {name} 2>/dev/null")
        for address in before.addresses:
            if address in before.dynamic:
                continue  # its DHCP client asks again
            lines.append(f"ip addr replace {shlex.quote(address)} dev {name}")
        if before.mtu is not None:
            lines.append(f"ip link set dev {name} mtu {before.mtu}")
        if not before.admin_up:
            lines.append(f"ip link set dev {name} down")
        for key, value in before.arp.items():
            if value is not None:
                lines.append(f"echo {value} > /proc/sys/net/ipv4/conf/{name}/{key}")
    return lines


@dataclass(frozen=True)
class Management:
    """How the node was reached before the change."""

    interface: str
    address: str  # with prefix, "10.77.0.11/24"
    routes: tuple[tuple[str, str], ...] = ()  # destination and gateway


def _restore_management(management: Management | None) -> list[str]:
    """Return shell lines that wait for the management address, and set it where the renderer does not."""
    if management is None:
        return []
    name, address = shlex.quote(management.interface), shlex.quote(management.address)
    lines = [
        "for second in 1 2 3 4 5 6 7 8 9 10; do",
        f"    ip addr show dev {name} | grep -qF {shlex.quote(management.address + ' ')} && break",
        "    sleep 1",
        "done",
        f"if ! ip addr show dev {name} | grep -qF {shlex.quote(management.address + ' ')}; then",
        f"    ip link set dev {name} up",
        f"    ip addr replace {address} dev {name}",
    ]
    for destination, gateway in management.routes:
        lines.append(f"    ip route replace {shlex.quote(destination)} via {shlex.quote(gateway)} dev {name}")
    return [*lines, "fi"]


def rollback_script(files: t.Sequence[str], planned: t.Iterable[Planned], live: t.Mapping[str, Live], netplan: bool,
                    management: Management | None = None, directory: str = STATE_DIRECTORY) -> str:
    """Return the script that takes a change back. It may run twice, or begin again after a reboot.

    Args:
        files: The managed paths; the old bytes of number n lie in ``pending/file-n`` (no such file: there was none).
        planned: The planned interfaces.
        live: Their state before the change.
        netplan: Whether ``netplan apply`` belongs to taking it back.
        management: What has to be there again in the end.
        directory: The state directory.
    """
    lines = [
        "#!/bin/sh",
        "# Written by dgxspark.fabric: takes back a change that was not confirmed in time.",
        "PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin",
        f"cd {shlex.quote(directory)} || exit 1",
        "exec 9>>lock || exit 1",
        "flock 9",
        "[ -e pending/journal.json ] || exit 0",
        "restore() {",
        '    if [ -e "$1" ]; then cp -p -- "$1" "$2.dgxspark-new" && mv -f -- "$2.dgxspark-new" "$2"; else rm -f -- "$2"; fi',
        "}",
    ]
    for number, path in enumerate(files):
        lines.append(f"restore pending/file-{number} {shlex.quote(path)}")
    lines.append("sync")
    if any(path.startswith(PROFILES) for path in files):
        lines.append("nmcli connection reload >>pending/rollback.log 2>&1")
    if netplan:
        lines.append("timeout 90 netplan apply >>pending/rollback.log 2>&1")
        # A renderer that restarts sets its interfaces up a little later than netplan returns.
        lines.append("sleep 3")
    lines.extend(_restore_live(planned, live))
    lines.extend(_restore_management(management))
    lines += [
        f"rm -f {UNIT_DIRECTORY}/{WANTS}/{UNIT}.service {UNIT_DIRECTORY}/{UNIT}.service",
        "rm -rf rolled-back",
        "mv pending rolled-back",
        "exit 0",
    ]
    return "\n".join(lines) + "\n"


class DeadMan:
    """The journal of one change below ``directory``."""

    def __init__(self, run: Runner, directory: str = STATE_DIRECTORY) -> None:
        self.run = run
        self.directory = pathlib.Path(directory)
        self.pending = self.directory / "pending"
        self.record = Record(directory)

    def journal(self) -> dict[str, t.Any] | None:
        """Return the journal of a change that waits to be confirmed, or ``None``."""
        try:
            return json.loads((self.pending / "journal.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            return {"token": None}

    @contextlib.contextmanager
    def _locked(self) -> t.Iterator[None]:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self.directory / "lock", "ab") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def alone(self, wait_seconds: float = 0.0, sleep: t.Callable[[float], None] = time.sleep) -> t.Iterator[None]:
        """Keep a second run of the module out. A run whose controller was killed goes on for a while: that is waited for.

        Args:
            wait_seconds: How long to wait for another run.
            sleep: Waits.

        Raises:
            DeadManError: Another run is at work on this node all the time.
        """
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        deadline = time.monotonic() + wait_seconds
        with open(self.directory / "apply.lock", "ab") as handle:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as exc:
                    if time.monotonic() >= deadline:
                        raise DeadManError("another run of this collection changes this node now: wait until it has ended") from exc
                    sleep(1.0)
            yield

    def arm(self, token: str, seconds: float, files: t.Sequence[managed_file.FileState], script: str, more: t.Mapping[str, t.Any]) -> None:
        """Write the journal, then start the timer and enable the unit for the next boot.

        Args:
            token: Names the change.
            seconds: After how long it is taken back.
            files: The files that are written, as they are.
            script: What takes it back.
            more: What the confirmation needs to know: ``kind`` ("provision" or "undo"), ``live`` and ``interfaces``.

        Raises:
            DeadManError: The timer cannot be started.
        """
        with self._locked():
            shutil.rmtree(self.pending, ignore_errors=True)
            shutil.rmtree(self.directory / "rolled-back", ignore_errors=True)
            self.pending.mkdir(mode=0o700)
            for number, state in enumerate(files):
                if state.content is not None:
                    owner = (state.owner, state.group) if state.owner is not None and state.group is not None else None
                    managed_file.write(str(self.pending / f"file-{number}"), state.content, state.mode or 0o600, owner)
            managed_file.write(str(self.pending / "rollback.sh"), script.encode(), 0o700)
            entries = [{"path": state.path, "mode": state.mode, "owner": state.owner, "group": state.group} for state in files]
            record = {"token": token, "armed": time.time(), "seconds": seconds, "files": entries, **more}
            managed_file.write(str(self.pending / "journal.json"), json.dumps(record).encode(), 0o600)
            managed_file.write(f"{UNIT_DIRECTORY}/{UNIT}.service", BOOT_UNIT.encode(), 0o644)
            wants = pathlib.Path(UNIT_DIRECTORY) / WANTS
            wants.mkdir(exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.symlink(f"../{UNIT}.service", wants / f"{UNIT}.service")
        try:
            self._start_timer(token, seconds)
        except DeadManError:
            with self._locked():
                self._clear(None)
            raise

    def _start_timer(self, token: str, seconds: float) -> None:
        done = self.run(["systemd-run", "--collect", f"--unit={UNIT}-{token}", f"--on-active={seconds:.0f}s", "--timer-property=AccuracySec=1s",
                         "/bin/sh", str(self.pending / "rollback.sh")], timeout=30)
        if done.rc != 0:
            raise DeadManError(f"the timer that would take the change back cannot be started, so nothing was changed: {done.err.strip() or done.rc}")

    def extend(self, token: str, seconds: float) -> bool:
        """Start the time of a waiting change anew, for a further run that completes it.

        Args:
            token: The change.
            seconds: After how long it is taken back now.

        Returns:
            Whether it waits still: its timer may have been faster.

        Raises:
            DeadManError: The timer cannot be started; the old one is gone, so the caller takes the change back.
        """
        with self._locked():
            if (self.journal() or {}).get("token") != token:
                return False
            # A script that its timer has just started waits for the lock: stopped here, it has done nothing.
            self.run(["systemctl", "stop", f"{UNIT}-{token}.timer", f"{UNIT}-{token}.service"], timeout=30)
            self._start_timer(token, seconds)
        return True

    def _clear(self, keep_as: str | None) -> None:
        """Take the journal away, or keep it under another name; the caller holds the lock."""
        if keep_as:
            shutil.rmtree(self.directory / keep_as, ignore_errors=True)
            os.rename(self.pending, self.directory / keep_as)
        else:
            shutil.rmtree(self.pending, ignore_errors=True)
        for path in (f"{UNIT_DIRECTORY}/{WANTS}/{UNIT}.service", f"{UNIT_DIRECTORY}/{UNIT}.service"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def note_reached(self, token: str, drift: list[dict[str, t.Any]], others: str | None = None, renderers: t.Mapping[str, str | None] | None = None) -> None:
        """Write down that the live state of a change is as planned, and what no change can mend: now it may be confirmed.

        Args:
            token: The change.
            drift: What deviates still.
            others: Digest of everything else that configures networks, as it is with the change.
            renderers: Who renders each planned interface now.
        """
        with contextlib.suppress(managed_file.FileError):  # taken back a moment ago; the confirmation will say so
            managed_file.write(str(self.pending / "reached.json"), json.dumps(
                {"token": token, "drift": drift, "others": others, "renderers": dict(renderers or {})}).encode(), 0o600)

    def _reached(self, token: str | None) -> dict[str, t.Any] | None:
        try:
            note = json.loads((self.pending / "reached.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return note if token in (None, note.get("token")) else None

    def confirm(self, token: str | None, wait_seconds: float = 0.0, sleep: t.Callable[[float], None] = time.sleep) -> list[dict[str, t.Any]] | None:
        """Keep the change: disarm.

        Args:
            token: Which change; ``None`` for whichever waits (the controller lost the connection before it learned the token).
            wait_seconds: How long to wait for a change that is still on its way.
            sleep: Waits.

        Returns:
            What deviates still, or ``None`` when there is nothing to confirm: the change was taken back, or is another run's.
        """
        deadline = time.monotonic() + wait_seconds
        while (note := self._reached(token)) is None:
            if self.journal() is None or time.monotonic() >= deadline:
                return None
            sleep(1.0)
        with self._locked():
            journal = self.journal()
            if journal is None:
                return None
            self._settle(journal, note)
        self.run(["systemctl", "stop", f"{UNIT}-{journal.get('token')}.timer"], timeout=30)
        return note.get("drift", [])

    def _settle(self, journal: t.Mapping[str, t.Any], note: t.Mapping[str, t.Any]) -> None:
        """Turn the journal into the node's record; the caller holds the lock. May be cut off and repeated at any point."""
        if journal.get("kind") == "undo":
            self.record.forget()
            self._clear("undone")
            return
        before = [managed_file.FileState(entry["path"], managed_file.read(str(self.pending / f"file-{number}")).content, entry["mode"], entry["owner"],
                                         entry["group"]) for number, entry in enumerate(journal.get("files", []))]
        self.record.keep(before, journal.get("live") or {})
        written = {state.path: managed_file.read(state.path).content for state in before}
        self.record.confirm(written, note.get("others"), note.get("renderers") or {}, journal.get("interfaces") or {})
        self._clear(None)

    def why_rolled_back(self) -> str:
        """Return why the last change was taken back, empty when nobody noted it: the timer did, or a reboot."""
        try:
            return (self.directory / "rolled-back/why").read_text(encoding="utf-8")
        except OSError:
            return ""

    def roll_back(self, why: str = "") -> str:
        """Take the change back now and wait for it.

        Args:
            why: Kept beside the journal, for a controller that lost the connection and asks later.

        Returns:
            What the script said, for the message.
        """
        journal = self.journal() or {}
        if why:
            with contextlib.suppress(managed_file.FileError):  # the timer was faster
                managed_file.write(str(self.pending / "why"), why.encode(), 0o600)
        done = self.run(["/bin/sh", str(self.pending / "rollback.sh")], timeout=180)
        self.run(["systemctl", "stop", f"{UNIT}-{journal.get('token')}.timer"], timeout=30)
        return (done.out + done.err).strip()
