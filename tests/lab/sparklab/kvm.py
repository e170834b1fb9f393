# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KVM or software emulation: decided by booting a guest of one instruction, not by /dev/kvm being there."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile

from . import processes
from .paths import lab_dir
from .progress import say

# A boot sector that writes 0x10 to the debug-exit port: mov dx,0xf4; mov al,0x10; out dx,al; hlt; jmp $
BOOT_SECTOR = b"\xba\xf4\x00\xb0\x10\xee\xf4\xeb\xfd".ljust(510, b"\0") + b"\x55\xaa"
EXIT_STATUS = 0x10 << 1 | 1
SECONDS = 15


def boots(accelerator: str) -> bool:
    """Tell whether a guest runs under an accelerator."""
    with tempfile.TemporaryDirectory() as folder:
        disk = pathlib.Path(folder) / "boot"
        disk.write_bytes(BOOT_SECTOR)
        command = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-M", "pc", "-accel", accelerator,
            "-m", "64", "-drive", f"file={disk},format=raw,if=ide,readonly=off", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04",
            "-no-reboot",
        ]
        if accelerator == "kvm":
            command += ["-cpu", "host"]
        try:
            return subprocess.run(command, capture_output=True, timeout=SECONDS, check=False).returncode == EXIT_STATUS
        except subprocess.TimeoutExpired:
            return False


def choose() -> str:
    """Return ``kvm`` or ``tcg``; tried once a boot of the host and user, then remembered."""
    record = lab_dir() / "accelerator.json"
    question = {"boot": processes.boot_id(), "user": os.getuid()}
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
        if known["question"] == question:
            return known["accelerator"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    answer = "kvm" if os.access("/dev/kvm", os.R_OK | os.W_OK) and boots("kvm") else "tcg"
    say(f"accelerator: {'KVM' if answer == 'kvm' else 'software emulation (a guest under KVM did not start)'}")
    record.write_text(json.dumps({"question": question, "accelerator": answer}) + "\n", encoding="utf-8")
    return answer
