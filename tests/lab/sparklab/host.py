# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the lab needs of the host, and how it calls programs there."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence

from .errors import LabError

# program -> Debian and Ubuntu package
PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "gcc": "gcc libc6-dev",
    "mpicc": "libopenmpi-dev openmpi-bin",
    "tar": "tar",
    "nft": "nftables",
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
RUN_PROGRAMS = ("qemu-system-x86_64", "qemu-img", "nft", "ip", "tc", "unshare", "nsenter", "ssh", "ssh-keygen")
BUILD_PROGRAMS = ("mmdebstrap", "mke2fs", "gcc", "mpicc", "tar", "unshare", "ssh-keygen")
PR_SET_PDEATHSIG = 1


def widen_path() -> None:
    """Make administrators' programs findable: a plain user's PATH often lacks them."""
    parts = os.environ.get("PATH", "/usr/bin:/bin").split(":")
    os.environ["PATH"] = ":".join(parts + [place for place in ("/usr/local/sbin", "/usr/sbin", "/sbin") if place not in parts])


def is_root() -> bool:
    """Tell whether the lab runs as root."""
    return os.getuid() == 0


def require(programs: Sequence[str]) -> None:
    """Check that programs are installed.

    Raises:
        LabError: some are not; the text has the command that installs them.
    """
    missing = [name for name in programs if shutil.which(name) is None]
    packages = {package for name in missing for package in PACKAGES[name].split()}
    if "mmdebstrap" in programs and not is_root() and shutil.which("newuidmap") is None:
        missing.append("newuidmap")
        packages.add("uidmap")
    if "mmdebstrap" in programs and not os.path.exists("/usr/share/keyrings/debian-archive-keyring.gpg"):
        missing.append("the keyring of Debian's archive")
        packages.add("debian-archive-keyring")
    if missing:
        raise LabError(f"missing on this host: {', '.join(missing)}; install with: sudo apt-get install {' '.join(sorted(packages))}")


def require_tun() -> None:
    """Check that network devices of virtual machines can be made.

    Raises:
        LabError: /dev/net/tun is absent or closed to this user.
    """
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        raise LabError(f"/dev/net/tun cannot be opened ({error.strerror}); as root: modprobe tun; chmod 0666 /dev/net/tun") from error


def die_with_parent(signal_number: int = signal.SIGTERM) -> Callable[[], None]:
    """Return a ``preexec_fn`` that ends the child when this process ends, however it ends."""
    library = ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        library.prctl(PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0)

    return prepare


def output(arguments: Sequence[str], timeout: float = 60, text: str | None = None) -> str:
    """Run a program to its end and return what it printed.

    Raises:
        LabError: it failed, with its last words.
    """
    try:
        done = subprocess.run(list(arguments), input=text, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{' '.join(arguments[:6])} … did not end within {timeout:.0f} s") from error
    if done.returncode:
        words = (done.stderr or done.stdout).strip()[-800:]
        raise LabError(f"{' '.join(arguments)} failed with status {done.returncode}: {words}")
    return done.stdout
