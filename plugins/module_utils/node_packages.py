# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Install missing Debian packages once, never upgrade anything by surprise, and remember the versions that a node was provisioned with."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import managed_file
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import NOT_FOUND, SEARCH_PATH, TIMED_OUT, Completed
from ansible_collections.dgxspark.fabric.plugins.module_utils.provision_record import STATE_DIRECTORY

# What "apt-get -s install" would do: "Inst new (2.0 …)", "Inst known [1.0] (2.0 …)", "Remv known [1.0]" (apt-get(8), --simulate).
STEP = re.compile(r"^(?P<what>Inst|Remv) (?P<name>\S+)(?: \[(?P<old>[^\]]+)\])?(?: \((?P<new>\S+))?")
NOT_KNOWN = re.compile(r"Unable to locate package|has no installation candidate|Failed to fetch|404  Not Found")
LOCK_SECONDS = 120
DOWNLOAD_SECONDS = 900
Runner = t.Callable[[t.Sequence[str], float], Completed]


class PackagesError(RuntimeError):
    """Packages cannot be installed without doing something that nobody asked for; the text says what."""


def parse_installed(text: str) -> dict[str, str]:
    """Return ``{package: version}`` of the installed ones from dpkg-query's "package<TAB>status<TAB>version"."""
    found = {}
    for line in text.splitlines():
        name, _tab, rest = line.partition("\t")
        status, _tab, version = rest.partition("\t")
        if status.startswith("installed") and version:
            found[name.partition(":")[0]] = version.strip()
    return found


def parse_steps(text: str) -> tuple[list[str], list[str], list[str]]:
    """Return what a simulated run would install, upgrade ("known 1.0 -> 2.0") and remove."""
    install, upgrade, remove = [], [], []
    for line in text.splitlines():
        match = STEP.match(line)
        if match is None:
            continue
        if match["what"] == "Remv":
            remove.append(match["name"])
        elif match["old"]:
            upgrade.append(f"{match['name']} {match['old']} -> {match['new']}")
        else:
            install.append(f"{match['name']} {match['new']}")
    return install, upgrade, remove


def run_apt(argv: t.Sequence[str], timeout: float) -> Completed:
    """Run apt-get or dpkg-query with no questions asked; proxies of the environment are passed on."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PATH": SEARCH_PATH, "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1"}
    try:
        done = subprocess.run(list(argv), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
                              env=environment)
    except subprocess.TimeoutExpired:
        return Completed(tuple(argv), TIMED_OUT, "", f"{argv[0]} did not end within {timeout:g} s")
    except OSError as exc:
        return Completed(tuple(argv), NOT_FOUND, "", f"{argv[0]}: {exc.strerror}")
    return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)


def installed(run: Runner, names: t.Sequence[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed.

    Raises:
        PackagesError: The node is no Debian or Ubuntu.
    """
    done = run(["dpkg-query", "-W", "-f=${Package}\\t${db:Status-Status}\\t${Version}\\n", *names], 30)
    if done.rc == NOT_FOUND:
        raise PackagesError("dpkg-query is missing: packages are installed on Debian and Ubuntu only; install them by hand and set fabric_packages: false")
    return parse_installed(done.out)


class Installer:
    """Installs missing packages with apt-get."""

    def __init__(self, run: Runner, options: t.Sequence[str] = ()) -> None:
        self.run = run
        self.options = [word for option in (f"DPkg::Lock::Timeout={LOCK_SECONDS}", *options) for word in ("-o", option)]

    def _apt(self, *words: str, timeout: float) -> Completed:
        return self.run(["apt-get", "-q", "-y", *self.options, *words], timeout)

    def plan(self, missing: t.Sequence[str]) -> list[str]:
        """Return what would be installed, after a look that changes nothing; package lists are fetched only where they do not know a package.

        Raises:
            PackagesError: A package is not known, or something installed would be upgraded or removed.
        """
        words = ["install", "--simulate", "--no-install-recommends", "--no-upgrade", *missing]
        done = self._apt(*words, timeout=LOCK_SECONDS)
        if done.rc and NOT_KNOWN.search(done.out + done.err):
            fetched = self._apt("update", timeout=DOWNLOAD_SECONDS)
            done = self._apt(*words, timeout=LOCK_SECONDS)
            if done.rc:
                raise PackagesError(self._failed(missing, done, fetched.err))
        elif done.rc:
            raise PackagesError(self._failed(missing, done, ""))
        install, upgrade, remove = parse_steps(done.out)
        if upgrade or remove:
            what = "; ".join(text for text in (f"upgrade {', '.join(upgrade)}" if upgrade else "", f"remove {', '.join(remove)}" if remove else "") if text)
            raise PackagesError(f"installing {', '.join(missing)} would also {what}. Nothing is upgraded or removed by surprise: do that yourself, then run "
                                "again, or set fabric_packages: false")
        return install

    @staticmethod
    def _failed(missing: t.Sequence[str], done: Completed, fetched: str) -> str:
        said = [line for line in (done.err + "\n" + fetched).splitlines() if line.startswith("E:")] or [done.err.strip()[-300:] or f"status {done.rc}"]
        return (f"{', '.join(missing)} cannot be installed: {' '.join(said[:3])}. On a node without internet give apt a mirror or proxy "
                "(packages_apt_options, or http_proxy in the play's environment), or install them by hand and set fabric_packages: false")

    def install(self, missing: t.Sequence[str]) -> None:
        """Install the packages.

        Raises:
            PackagesError: apt-get fails.
        """
        words = ["install", "--no-install-recommends", "--no-upgrade", "-o", "Dpkg::Options::=--force-confold", *missing]
        done = self._apt(*words, timeout=DOWNLOAD_SECONDS)
        if done.rc and NOT_KNOWN.search(done.out + done.err):
            fetched = self._apt("update", timeout=DOWNLOAD_SECONDS)
            done = self._apt(*words, timeout=DOWNLOAD_SECONDS)
            if done.rc:
                raise PackagesError(self._failed(missing, done, fetched.err))
        elif done.rc:
            raise PackagesError(self._failed(missing, done, ""))


def read_record(directory: str = STATE_DIRECTORY) -> dict[str, str]:
    """Return the versions with which the node was provisioned, empty when there is no record."""
    try:
        value = json.loads((pathlib.Path(directory) / "packages.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(version) for name, version in value.items()} if isinstance(value, dict) else {}


def write_record(versions: t.Mapping[str, str], directory: str = STATE_DIRECTORY) -> None:
    """Remember the versions.

    Raises:
        managed_file.FileError: They cannot be written.
    """
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True, mode=0o700)
    managed_file.write(os.path.join(directory, "packages.json"), json.dumps(dict(sorted(versions.items()))).encode(), 0o600)


def drift(node: str, names: t.Sequence[str], present: t.Mapping[str, str], recorded: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
    """Return missing packages, and versions that are not those with which the node was provisioned, as entries of the drift list."""
    entries = []
    for name in [*names, *sorted(set(recorded) - set(names))]:
        known, now = recorded.get(name), present.get(name)
        if now is None and (name in names or known):
            entries.append({"host": node, "subject": name, "key": "package", "wanted": known or "installed", "live": "missing",
                            "message": f"{node}: {name} is not installed"})
        elif known and now != known:
            entries.append({"host": node, "subject": name, "key": "version", "wanted": known, "live": now,
                            "message": f"{node}: {name} is {now}, the node was provisioned with {known}; provisioning again accepts it"})
    return entries
