# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's key pair: opens root and ``spark`` on all its machines, and nothing else."""

from __future__ import annotations

import pathlib

from . import host
from .paths import keys_dir


def private_key() -> pathlib.Path:
    """Return the path of the private key, made when missing."""
    path = keys_dir() / "id_ed25519"
    if not path.exists() or not path.with_suffix(".pub").exists():
        for old in (path, path.with_suffix(".pub")):
            old.unlink(missing_ok=True)
        host.output(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sparklab", "-f", str(path)])
    return path


def public_key() -> str:
    """Return the public key's text."""
    return private_key().with_suffix(".pub").read_text(encoding="ascii").strip()
