# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the lab keeps its things.

Everything lasting is under ``.lab/`` in the repository's root. Sockets are elsewhere: their paths must stay below 108
bytes, whatever the checkout is called.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import stat

from .errors import LabError

PROGRAM_DIR = pathlib.Path(__file__).resolve().parents[1]
REPOSITORY = PROGRAM_DIR.parents[1]
PROGRAM = PROGRAM_DIR / "lab"
RECIPE_DIR = PROGRAM_DIR / "image"


def lab_dir() -> pathlib.Path:
    """Return ``.lab``, made when missing."""
    path = REPOSITORY / ".lab"
    path.mkdir(mode=0o755, exist_ok=True)
    return path


def run_dir() -> pathlib.Path:
    """Return the folder of what is running now (disks, logs, state)."""
    path = lab_dir() / "run"
    path.mkdir(exist_ok=True)
    return path


def marks_dir() -> pathlib.Path:
    """Return the folder of the disks of ``lab mark`` (as deep as snapshots are: disks name their base by relative path)."""
    path = run_dir() / "marks"
    path.mkdir(exist_ok=True)
    return path


def images_dir() -> pathlib.Path:
    """Return the folder of built images."""
    path = lab_dir() / "images"
    path.mkdir(exist_ok=True)
    return path


def snapshots_dir() -> pathlib.Path:
    """Return the folder of booted machines."""
    path = lab_dir() / "snapshots"
    path.mkdir(exist_ok=True)
    return path


def keys_dir() -> pathlib.Path:
    """Return the folder of the ssh key pair."""
    path = lab_dir() / "keys"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def inventory_dir() -> pathlib.Path:
    """Return the folder of the inventory that the lab writes."""
    return REPOSITORY / "inventories" / "lab"


def socket_dir() -> pathlib.Path:
    """Return a short, private folder for sockets: one a checkout and user.

    Raises:
        LabError: the name is taken by something that is not ours.
    """
    mark = hashlib.sha256(str(REPOSITORY).encode()).hexdigest()[:8]
    path = pathlib.Path("/tmp") / f"sparklab-{os.getuid()}-{mark}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise LabError(f"{path} is not a private folder of this user; remove it, the lab makes it again")
    return path


def control_dir() -> pathlib.Path:
    """Return the folder of ssh's multiplexing sockets."""
    path = socket_dir() / "cm"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def readable_by_all(path: pathlib.Path) -> bool:
    """Tell whether other users may pass through to ``path`` (subordinate users of a plain user's image build must)."""
    return all(folder.stat().st_mode & 0o001 for folder in [path, *path.parents])
