# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the look into an image means: why nothing can run in it, and where it differs from its host. Pure.

Serving happens in the image, so a host that passes every test proves little: the image brings another NCCL, an old ``nccl.conf`` or no RDMA device.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_library

#: What the look into the image says in place of the host's word.
INSIDE = (
    "program", "stand_in", "writes_json", "nccl_library", "nccl_version", "known", "memlock_bytes", "infiniband", "configurations", "environment")
#: In the environment of NVIDIA's images: the version of a package, which NCCL does not read.
LABELS = ("NCCL_VERSION",)


def inside(report: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a node's report as a rank in the image sees it; the host's own words stay under ``host``."""
    found = report.get("container") or {}
    taken = {name: found[name] for name in INSIDE if name in found}
    return {**report, **taken, "host": {name: report.get(name) for name in taken}}


def obstacle(node: str, image: str, report: Mapping[str, t.Any]) -> tuple[str, str, str, str] | None:
    """Return why nothing can run in the image on a node: reason, message, cause and fix; None where it can."""
    found = report.get("container")
    if not found:
        return (
            "image", f"{node}: the look into the image {image} (fabric_nccl_image) gave no answer in time",
            "The engine is busy or hangs, or the image starts slowly.",
            f"Try docker run --rm --entrypoint true {image} on {node}; give it time by nccl_tests_launch_seconds.")
    problem = found.get("problem")
    if problem:
        return _refused(node, image, problem)
    if found.get("lacks"):
        return (
            "image_tools", f"{node}: the image {image} (fabric_nccl_image) has no {', '.join(found['lacks'])}",
            "The image is cut down to a program; the look into it needs a shell, coreutils and grep.",
            "Name the image that serves, or one that has these programs.")
    if not found.get("program"):
        return (
            "image_program", f"{node}: nccl-tests is not where it is looked for in the image {image} (fabric_nccl_image)",
            "Neither does the image bring it, nor does the host have it to lend.",
            "Run the role nccl (playbook provision), so that the host's is lent to the image, or set nccl_tests_image_programs to its folder in the image.")
    unloadable, loader = found.get("unloadable") or [], found.get("loader")
    if unloadable or loader:
        return (
            "image_libraries", f"{node}: nccl-tests cannot be loaded in the image {image} (fabric_nccl_image): " +
            (f"{', '.join(unloadable)} {'is' if len(unloadable) == 1 else 'are'} missing there" if unloadable else str(loader)),
            "nccl-tests needs NCCL, CUDA's runtime and the Open MPI that it was built with; many images bring no MPI, or an older C library.",
            "Use an image that has them, with nccl-tests built for it (nccl_tests_image_programs), name their folders in the image "
            "(nccl_tests_image_libraries), or lend the host's by --volume in nccl_tests_image_options.")
    if not found.get("nccl_library") and not found.get("stand_in"):
        return (
            "image_libraries", f"{node}: libnccl.so.2 is not found in the image {image} (fabric_nccl_image)",
            "The image brings no NCCL, or in a folder that was not looked through.", "Name its folder in nccl_tests_image_libraries.")
    return None


def _refused(node: str, image: str, problem: Mapping[str, t.Any]) -> tuple[str, str, str, str]:
    """Return reason, message, cause and fix of what an engine refused."""
    engine, text, kind = str(problem.get("engine") or "docker"), str(problem.get("text") or ""), str(problem.get("id"))
    of = f"the image {image} (fabric_nccl_image)"
    said = f": {text}" if text else ""
    texts = {
        "engine_missing": (
            f"{node}: {of} cannot be run, there is no {engine} in the PATH of the ssh user", "No container engine is installed.",
            f"Install docker or podman on {node}, name the right one in nccl_tests_image_engine, or leave fabric_nccl_image out."),
        "engine_refused": (
            f"{node}: {engine} refuses to say whether it has {of}{said}", "Its daemon does not run, or the ssh user may not talk to it.",
            f"On {node}: systemctl start docker, and add the ssh user to the group docker; or set fabric_ssh_user to root, or nccl_tests_image_engine."),
        "image_missing": (
            f"{node}: {engine} does not have {of}", "It was never loaded there, or under another name or tag; nothing is pulled unasked.",
            f"Load it on {node} ({engine} pull {image}, or {engine} save on a node that has it and {engine} load), correct fabric_nccl_image, "
            "or set nccl_tests_image_pull: true."),
        "pull_failed": (
            f"{node}: {engine} could not pull {of}{said}", "The registry is out of reach, or refuses the name or the login.",
            f"Try {engine} pull {image} on {node}, or copy it from a node that has it by {engine} save and {engine} load."),
        "architecture": (
            f"{node}: {of} is built for another processor, {text}", "The image was pulled or built on another kind of machine.",
            f"Pull or build it for {text.rpartition(' ')[2]} (--platform linux/{text.rpartition(' ')[2]})."),
        "not_started": (
            f"{node}: {engine} could not start a container of {of}{said}", "An option that the engine refuses, or an image without a shell.",
            f"Correct nccl_tests_image_options; try {engine} run --rm --entrypoint sh {image} -c true on {node}."),
    }
    message, cause, fix = texts.get(kind, (f"{node}: {of} cannot be run{said}", "The engine's words name no known cause.", f"Try it by hand on {node}."))
    return kind, message, cause, fix


def differences(image: str, reports: Mapping[str, Mapping[str, t.Any]], planned: Mapping[str, Mapping[str, str]]) -> Iterator[dict[str, t.Any]]:
    """Yield where images differ from their hosts and from each other: {id, nodes, message, fix}.

    :param reports: of each node, as ``inside`` returns them
    :param planned: the environment of each node
    """
    identities = {node: str((report.get("container") or {}).get("image_id"))[:12] for node, report in reports.items()}
    if len(set(identities.values())) > 1:
        yield _found(
            "container_image", list(reports),
            f"{image} is not the same image everywhere: " + ", ".join(f"{node} has {name}" for node, name in identities.items()),
            "Copy it from one node to the others (docker save, docker load), or pull the same digest.")
    for node, report in reports.items():
        for problem, message, fix in _of_node(image, report, planned.get(node, {})):
            yield _found(problem, [node], f"{node}: {message}", fix)


def _found(problem: str, nodes: list[str], message: str, fix: str) -> dict[str, t.Any]:
    return {"id": problem, "nodes": nodes, "message": message, "fix": fix}


def _of_node(image: str, report: Mapping[str, t.Any], planned: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield problem, message and fix of one node."""
    host, found = report.get("host") or {}, report.get("container") or {}
    mine, other = report.get("nccl_version"), host.get("nccl_version")
    if mine != other and mine and other:
        yield (
            "container_version", f"NCCL is {mine} in {image} and {other} on the host",
            "Judge serving by the image's; use an image with the host's NCCL where the two should agree.")
    inner, outer = (known.get(nccl_library.MARKER) for known in (report.get("known") or {}, host.get("known") or {}))
    if inner is not None and outer is not None and inner != outer:
        yield (
            "container_marker",
            f"NCCL in {image} {'knows' if inner else 'does not know'} {nccl_library.MARKER}, the host's {'knows' if outer else 'does not know'} it",
            "Bring the same library into the image, or mount the host's over it; the environment follows the library that is loaded.")
    others = {path: version for path, version in (found.get("libraries") or {}).items() if version != mine}
    if others:
        yield (
            "container_library", f"{image} has more than one NCCL: {mine} ({report.get('nccl_library')}) was tested, and "
            + ", ".join(f"{version or 'one that tells no version'} ({path})" for path, version in others.items()),
            "Test the one that the server loads: name its folder in nccl_tests_image_libraries.")
    own = {name: value for name, value in (report.get("environment") or {}).items() if planned.get(name) != value and name not in LABELS}
    if own:
        yield (
            "container_configuration", f"its own environment (ENV) in {image} sets {_assigned(own)}, the host does not",
            "Build the image without it; the plan's nccl.env is meant to be all that is set.")
    theirs, ours = report.get("configurations") or {}, host.get("configurations") or {}
    for path in sorted({*theirs, *ours}):
        within, outside = theirs.get(path) or {}, ours.get(path) or {}
        more = {name: value for name, value in within.items() if outside.get(name) != value}
        if more:
            other = {name: outside[name] for name in more if name in outside}
            yield (
                "container_configuration", f"{path} in {image} sets {_assigned(more)}, the host {_assigned(other) or 'does not'}",
                "Build the image without it; the plan's nccl.env is meant to be all that is set.")
        lost = {name: value for name, value in outside.items() if name not in within}
        if lost:
            yield (
                "container_configuration", f"{path} on the host sets {_assigned(lost)}, {image} does not have it",
                f"Put what is wanted of it into fabric_nccl_environment and remove {path}: nccl.env holds in both.")
    inner_limit, outer_limit = report.get("memlock_bytes"), host.get("memlock_bytes")
    if inner_limit != outer_limit:
        yield (
            "container_memlock", f"a process may lock {_limit(inner_limit)} of memory in {image}, {_limit(outer_limit)} on the host",
            "Start containers with --ulimit=memlock=-1:-1 (compose: ulimits: memlock: -1; for the test: nccl_tests_image_options)."
            if outer_limit == "unlimited" else "Set 'memlock unlimited' for the user in /etc/security/limits.d, so that both are the same.")
    missing = sorted(set(host.get("infiniband") or []) - set(report.get("infiniband") or []))
    if missing:
        yield (
            "container_infiniband", f"/dev/infiniband in {image} lacks {', '.join(missing)} of the host: NCCL then finds no device and falls back to sockets",
            "Start containers with --device=/dev/infiniband (or --privileged); for the test it stands in nccl_tests_image_options.")


def _assigned(values: Mapping[str, t.Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _limit(value: t.Any) -> str:
    return f"{value} bytes" if isinstance(value, int) else "any amount" if value == "unlimited" else "an unknown amount"
