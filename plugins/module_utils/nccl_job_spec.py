# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job that the module ``nccl_tests`` gets, checked: what comes from a file or a person ends in a sentence, not in a traceback."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t
from collections.abc import Mapping

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv", "alltoall")
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}", re.ASCII)
RUN_NAME = re.compile(r"[A-Za-z0-9-]{6,64}", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}", re.ASCII)


class JobInputError(ValueError):
    """The job cannot be done as it is given."""


@dataclasses.dataclass(frozen=True, slots=True)
class NcclTest:
    """One run of nccl-tests. Sizes in bytes; ``end`` 0 stands for the largest that memory allows."""

    id: str
    collective: str
    nodes: tuple[str, ...]
    begin: int
    end: int
    factor: int
    repeats: int
    #: ``all`` nodes, the ``first`` two, or a ``pair`` of neighbours.
    group: str
    sweep: bool


@dataclasses.dataclass(frozen=True, slots=True)
class NcclContainer:
    """How the tests run inside an image."""

    image: str
    #: docker or podman; "" takes the one that has the image.
    engine: str
    #: Folder of nccl-tests in the image; "" lends the host's.
    programs: str
    libraries: tuple[str, ...]
    #: Options of docker run, as the serving container has them.
    options: tuple[str, ...]
    pull: bool
    pull_seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class NcclJob:
    """Everything that the launching node needs to know. Times in seconds, sizes in bytes."""

    run: str
    node: str
    user: str | None
    shape: str
    order: tuple[str, ...]
    planned_order: tuple[str, ...]
    addresses: dict[str, str]
    links: tuple[tuple[str, str], ...]
    networks: tuple[str, ...]
    fabric_networks: tuple[str, ...]
    environments: dict[str, list[dict[str, t.Any]]]
    environment_file: str | None
    profile: str
    least_version: str | None
    programs: str
    libraries: tuple[str, ...]
    tests: tuple[NcclTest, ...]
    not_run: tuple[dict[str, t.Any], ...]
    require_gpu: bool
    largest_bytes: int
    memory_share: float
    iterations: int
    warmup: int
    launch_seconds: float
    test_seconds: float
    added: dict[str, str]
    #: The image that the tests run in, with what ``nccl_container`` has to know of it; None runs them on the host.
    container: NcclContainer | None = None

    @property
    def deadline(self) -> float:
        """Seconds after which the job ends whatever happens."""
        runs = sum(test.repeats for test in self.tests)
        return self.look_seconds + self.launch_seconds + runs * (self.test_seconds + self.launch_seconds) + 60

    @property
    def look_seconds(self) -> float:
        """Seconds that the first launch may take, the pull of an image included."""
        return self.launch_seconds + (self.container.pull_seconds if self.container is not None and self.container.pull else 0)

    def environment(self, node: str) -> dict[str, str]:
        """Return the planned environment of a node."""
        return {str(entry["name"]): str(entry["value"]) for entry in self.environments.get(node, [])}


def parse_job(document: t.Any) -> NcclJob:
    """Return the job.

    :raises JobInputError: naming the field, what it holds and what is expected
    """
    if not isinstance(document, Mapping):
        raise JobInputError("the job is no mapping; use the filter dgxspark.fabric.nccl_job")
    try:
        return _job(document)
    except JobInputError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise JobInputError(f"the job is not what the filter dgxspark.fabric.nccl_job makes: {error}") from None


def _job(document: Mapping[str, t.Any]) -> NcclJob:
    order = _names(document, "order")
    addresses = {str(node): _address(node, address) for node, address in _mapping(document, "addresses").items()}
    lacking = [node for node in order if node not in addresses]
    if lacking:
        raise JobInputError(f"addresses: there is no management address of {', '.join(lacking)}: set fabric_management_address for it")
    run = str(document.get("run", ""))
    if not RUN_NAME.fullmatch(run):
        raise JobInputError(f"run: expected 6 to 64 letters, digits or dashes, got {run[:80]!r}")
    return NcclJob(
        run=run,
        node=str(document.get("node", "")),
        user=str(document["user"]) if document.get("user") else None,
        shape=str(document.get("shape", "")),
        order=order,
        planned_order=_names(document, "planned_order"),
        addresses=addresses,
        links=tuple((str(link[0]), str(link[1])) for link in _list(document, "links")),
        networks=_networks(document, "networks"),
        fabric_networks=_networks(document, "fabric_networks"),
        environments={str(node): [dict(entry) for entry in entries] for node, entries in _mapping(document, "environments").items()},
        environment_file=str(document["environment_file"]) if document.get("environment_file") else None,
        profile=str(document.get("profile", "upstream")),
        least_version=str(document["least_version"]) if document.get("least_version") else None,
        programs=str(document.get("programs", "")),
        libraries=tuple(str(folder) for folder in _list(document, "libraries")),
        tests=tuple(_test(entry) for entry in _list(document, "tests")),
        not_run=tuple(dict(entry) for entry in _list(document, "not_run")),
        require_gpu=bool(document.get("require_gpu", True)),
        largest_bytes=int(_number(document, "largest_bytes", 8, 1 << 40)),
        memory_share=_number(document, "memory_share", 0.001, 0.9),
        iterations=int(_number(document, "iterations", 1, 10**6)),
        warmup=int(_number(document, "warmup", 0, 10**6)),
        launch_seconds=_number(document, "launch_seconds", 1, 3600),
        test_seconds=_number(document, "test_seconds", 1, 86400),
        added={str(name): str(value) for name, value in _mapping(document, "added").items()},
        container=_container(_mapping(document, "container")),
    )


def _container(entry: Mapping[str, t.Any]) -> NcclContainer | None:
    """Return how the tests run inside an image, None without one."""
    image, engine = str(entry.get("image") or ""), str(entry.get("engine") or "")
    if not image:
        return None
    if not IMAGE.fullmatch(image):
        raise JobInputError(f"fabric_nccl_image: {image[:80]!r} is no name of an image, such as vllm-node:latest")
    if engine not in ("", "docker", "podman"):
        raise JobInputError(f"nccl_tests_image_engine: expected docker, podman or nothing, got {engine[:80]!r}")
    options, libraries = ([str(value) for value in _list(entry, name)] for name in ("options", "libraries"))
    bad = next((option for option in options if not option.startswith("-")), None)
    if bad is not None:
        raise JobInputError(f"nccl_tests_image_options: {bad[:80]!r} is no option; write each as one word, such as --ulimit=memlock=-1:-1")
    return NcclContainer(
        image=image, engine=engine, programs=str(entry.get("programs") or ""), libraries=tuple(libraries), options=tuple(options),
        pull=bool(entry.get("pull")), pull_seconds=_number(entry, "pull_seconds", 1, 86400))


def _mapping(document: Mapping[str, t.Any], field: str) -> Mapping[str, t.Any]:
    value = document.get(field) or {}
    if not isinstance(value, Mapping):
        raise JobInputError(f"{field}: expected a mapping, got {type(value).__name__}")
    return value


def _list(document: Mapping[str, t.Any], field: str) -> list[t.Any]:
    value = document.get(field) or []
    if not isinstance(value, (list, tuple)):
        raise JobInputError(f"{field}: expected a list, got {type(value).__name__}")
    return list(value)


def _names(document: Mapping[str, t.Any], field: str) -> tuple[str, ...]:
    names = tuple(str(name) for name in _list(document, field))
    bad = [name for name in names if not NAME.fullmatch(name)]
    if not names or bad:
        raise JobInputError(f"{field}: expected the nodes' names, got {bad[0][:80]!r}" if bad else f"{field}: no node is named")
    return names


def _address(node: t.Any, value: t.Any) -> str:
    address = str(value or "")
    if not address or not re.fullmatch(r"[A-Za-z0-9._:%-]{1,253}", address) or address.startswith("-"):
        raise JobInputError(f"addresses: {node} has {address[:80]!r}, which is no address: set fabric_management_address for it")
    return address


def _networks(document: Mapping[str, t.Any], field: str) -> tuple[str, ...]:
    networks = tuple(str(network) for network in _list(document, field))
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise JobInputError(f"{field}: {network[:80]!r} is no network: {error}") from None
    return networks


def _number(document: Mapping[str, t.Any], field: str, least: float, most: float) -> float:
    value = document.get(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise JobInputError(f"{field}: expected a number from {least:g} to {most:g}, got {value!r}")
    return float(value)


def _test(entry: t.Any) -> NcclTest:
    if not isinstance(entry, Mapping):
        raise JobInputError("tests: an entry is no mapping")
    collective = str(entry.get("collective", ""))
    if collective not in COLLECTIVES:
        raise JobInputError(f"tests: {collective[:80]!r} is no collective that can be run; known are {', '.join(COLLECTIVES)}")
    return NcclTest(
        id=str(entry["id"]) if NAME.fullmatch(str(entry.get("id", ""))) else _bad_id(entry),
        collective=collective,
        nodes=_names(entry, "nodes"),
        begin=int(_number(entry, "begin", 1, 1 << 40)),
        end=int(_number(entry, "end", 0, 1 << 40)),
        factor=int(_number(entry, "factor", 2, 1024)),
        repeats=int(_number(entry, "repeats", 1, 1000)),
        group=str(entry.get("group", "all")),
        sweep=bool(entry.get("sweep", True)),
    )


def _bad_id(entry: Mapping[str, t.Any]) -> str:
    raise JobInputError(f"tests: {str(entry.get('id'))[:80]!r} is no name of a test")
