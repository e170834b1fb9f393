# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The load generator in a Python environment of its own, at a pinned version: found, made, or a clear word on why it cannot be.

An environment that was cut off while it was made has no stamp, and is made anew.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import typing as t
from collections.abc import Callable, Sequence

from ansible_collections.dgxspark.fabric.plugins.module_utils import command as programs

PACKAGE = "aiperf"
#: Versions of Python that the pinned aiperf is for (its Requires-Python), best first.
PYTHONS = ("3.12", "3.13", "3.11")
STAMP = ".complete"
#: One package that aiperf needs, crick, has no wheel for arm64 and is built from source there; these words tell that it could not be.
BUILD_WORDS = ("Python.h", "gcc", "Failed to build", "Failed building wheel", "failed-wheel-build")
BUILD_FIX = (
    "Install a compiler and Python's headers (build-essential, python3-dev), or drive the endpoint from an x86 machine (inference_bench_from: localhost).")
INDEX_FIX = (
    "Give this machine a package index or a folder of wheels by inference_bench_pip_options (--index-url=…, --find-links=…, --no-index), drive the "
    "endpoint from another one (inference_bench_from: localhost), or name an installed one in inference_bench_program.")
#: Free bytes that the environment needs, the package index's cache included.
LEAST_BYTES = 3 * 2**30


class GeneratorError(Exception):
    """There is no load generator; ``fix`` says what to do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


class Step(t.Protocol):
    """Run one command to its end within some seconds; return what it left."""

    def __call__(self, name: str, command: Sequence[str], seconds: float) -> programs.Completed:
        """Run."""


def find(program: str, version: str, run: programs.Runner) -> str:
    """Return the path of a load generator that somebody else has installed.

    :raises GeneratorError: when it is not there or another version
    """
    fix = "Set inference_bench_program to an aiperf that runs on this machine, or leave it empty so that one is installed."
    done = run([program, "--version"], timeout=120.0)
    if done.rc == programs.NOT_FOUND:
        raise GeneratorError(f"{program} is not there: {done.err.strip()}", fix)
    found = version_in(done.out + done.err)
    if done.rc != 0 or found is None:
        raise GeneratorError(f"{program} --version ends with status {done.rc}: {last_line(done.err or done.out)}", fix)
    if found != version:
        raise GeneratorError(f"{program} is version {found}, the figures of inference_bench_version {version} are wanted",
                             "Set inference_bench_version to the installed one: its results are kept with every run.")
    return program


def make(folder: str, version: str, python: str, pip_options: Sequence[str], step: Step, seconds: float,
         find_program: Callable[[str], str | None] = programs.find_program) -> str:
    """Return the path of the load generator in its environment, which is made where it is not complete.

    :param folder: of the environments; each version has its own below it
    :param python: interpreter to make it with; "" looks for one
    :param seconds: within which it has to be done
    :raises GeneratorError: when it cannot be made
    """
    home = pathlib.Path(folder) / f"{PACKAGE}-{version}"
    program = home / "bin" / PACKAGE
    if (home / STAMP).is_file() and os.access(program, os.X_OK):
        return str(program)
    interpreter = find_python(python, step, find_program)
    try:
        home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if home.exists():
            shutil.rmtree(home)
        free = shutil.disk_usage(home.parent).free
    except OSError as error:
        raise GeneratorError(f"{home} cannot be made: {error}", "Set inference_bench_environment to a folder that the connecting user may write to.") from error
    if free < LEAST_BYTES:
        raise GeneratorError(f"{home.parent} has {free / 2**30:.1f} GiB free, {PACKAGE} needs {LEAST_BYTES // 2**30}",
                             "Make room, or set inference_bench_environment to a folder on another file system.")
    made = step("venv", [interpreter, "-m", "venv", str(home)], seconds)
    if made.rc != 0:
        shutil.rmtree(home, ignore_errors=True)
        lacking = "ensurepip" in made.out + made.err or "No module named venv" in made.err
        fix = f"Install {pathlib.Path(interpreter).name}-venv." if lacking else "Set inference_bench_python to another Python."
        raise GeneratorError(f"{interpreter} makes no virtual environment: {last_line(made.err or made.out)}", fix)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--prefer-binary"]
    done = step("pip", [*pip, *pip_options, f"{PACKAGE}=={version}"], seconds)
    if done.rc != 0:
        shutil.rmtree(home, ignore_errors=True)
        text = done.out + done.err
        why = f"pip did not end within {seconds:g} s" if done.rc == programs.TIMED_OUT else error_line(text)
        raise GeneratorError(
            f"{PACKAGE} {version} cannot be installed into {home}: {why}",
            BUILD_FIX if any(word in text for word in BUILD_WORDS) else INDEX_FIX)
    seen = step("version", [str(program), "--version"], min(seconds, 120.0))
    if seen.rc != 0 or version_in(seen.out + seen.err) != version:
        shutil.rmtree(home, ignore_errors=True)
        raise GeneratorError(f"{PACKAGE} {version} was installed and does not run: {last_line(seen.err or seen.out)}",
                             "Set inference_bench_python to another Python, or inference_bench_program to an aiperf that runs.")
    (home / STAMP).touch()
    return str(program)


def find_python(wanted: str, step: Step, find_program: Callable[[str], str | None]) -> str:
    """Return the interpreter to make the environment with.

    :raises GeneratorError: when none fits
    """
    candidates = [wanted] if wanted else [path for name in (*(f"python{version}" for version in PYTHONS), "python3") if (path := find_program(name))]
    seen = []
    for path in candidates:
        done = step("python", [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], 30.0)
        version = done.out.strip()
        if done.rc == 0 and version in PYTHONS:
            return path
        seen.append(f"{path} is {version or last_line(done.err)}")
    raise GeneratorError(
        f"{PACKAGE} needs Python {', '.join(sorted(PYTHONS))}: {'; '.join(seen) or 'none is here'}",
        "Install one of them (python3.12 and python3.12-venv), or set inference_bench_python to its path.")


def version_in(text: str) -> str | None:
    """Return the version in what ``--version`` prints, None where there is none."""
    found = re.search(r"(?:^|[\s=v])([0-9]+\.[0-9]+(?:\.[0-9A-Za-z]+)*)\s*$", text.strip())
    return found.group(1) if found else None


def error_line(text: str) -> str:
    """Return the line of pip's output that says most: the first error."""
    errors = [line.strip() for line in text.splitlines() if line.startswith("ERROR:")]
    return (errors[0].removeprefix("ERROR:").strip() if errors else last_line(text))[:400]


def last_line(text: str) -> str:
    """Return the last line with text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:400] if lines else "it says nothing"
