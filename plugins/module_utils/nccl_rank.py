# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One rank of a launch: looks at its node, starts the program with the node's environment, ends it in time, keeps what it saw.

A program of its own: its text is handed to ``python3 -c`` on every node, by mpirun (``probe``, ``run``) and by ssh (``collect``), so nothing has to be
installed there. It imports the standard library alone. Arguments: what to do, and a JSON document (see ``nccl_launch.rank_document``).

mpirun keeps only the order of ranks; which machine a rank is on is checked here, by binding to the address that the rank should have.
"""

from __future__ import annotations

import base64
import ctypes
import json
import mmap
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import typing as t
import zlib

#: In the environment of every program that a launch starts, so that a later look finds those that should be gone.
MARK = "FABRIC_NCCL_RUN"
WRONG_NODE, DEADLINE = 97, 124
LOG_LIMIT = 16 * 2**20
LIBRARY = "libnccl.so.2"
STAND_IN = b"stand-in of dgxspark.fabric"
WRITES_JSON = b"Writing JSON output"
VERSION = re.compile(rb"NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3})")
ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Z][A-Z0-9_]{1,60})=(.*?)\s*$")
SETTINGS = ("NCCL_", "UCX_", "OMPI_MCA_", "GLOO_")
#: Loggers of NCCL that tell networks, devices, channels and routing; "INFO" alone leaves NET out.
SUBSYSTEMS = "INIT,BOOTSTRAP,ENV,NET"
#: Stands in the program's arguments for the file that its results go to as JSON.
RESULTS = "@results@"
PR_SET_PDEATHSIG = 1


def read_text(path: str, limit: int = 65536) -> str | None:
    """Return the text of a small file, None when it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(limit).decode("utf-8", "replace").strip()
    except OSError:
        return None


def settings_of(text: str | None) -> dict[str, str]:
    """Return the settings of NCCL and its relatives in a text of assignments; nothing else of it is kept."""
    found = {}
    for line in (text or "").splitlines():
        match = ASSIGNMENT.match(line)
        if match and match[1].startswith(SETTINGS):
            value = match[2]
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            found[match[1]] = value[1:-1] if quoted else value
    return found


def output(arguments: list[str], seconds: float = 20, environment: dict[str, str] | None = None) -> str:
    """Return what a program prints, "" when it is missing or fails to end."""
    try:
        done = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
            start_new_session=True, env={**(environment or os.environ), "LC_ALL": "C"})
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def counters() -> dict[str, t.Any]:
    """Return the bytes that each RDMA device and each network interface has moved so far.

    ``port_xmit_data`` counts words of four bytes. A device without it (rxe) moves its data through its interface, which counts it.
    """
    base, found = "/sys/class/infiniband", {}
    for device in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        port = os.path.join(base, device, "ports/1")
        words = [read_text(os.path.join(port, "counters", name)) for name in ("port_xmit_data", "port_rcv_data")]
        interface = next((name for index in range(8) if (name := read_text(os.path.join(port, "gid_attrs/ndevs", str(index))))), None)
        if all(word is not None and word.isdigit() for word in words):
            found[device] = {"tx_bytes": 4 * int(words[0]), "rx_bytes": 4 * int(words[1]), "source": "port_xmit_data", "interface": interface}
        elif interface:
            found[device] = {**interface_bytes(interface), "source": "interface", "interface": interface}
    links = "/sys/class/net"
    names = [name for name in sorted(os.listdir(links)) if name != "lo"] if os.path.isdir(links) else []
    return {"devices": found, "interfaces": {name: interface_bytes(name) for name in names}}


def interface_bytes(name: str) -> dict[str, t.Any]:
    """Return what a network interface has moved."""
    values = [read_text(f"/sys/class/net/{name}/statistics/{counter}") for counter in ("tx_bytes", "rx_bytes")]
    return {key: int(value) if value is not None and value.isdigit() else None for key, value in zip(("tx_bytes", "rx_bytes"), values)}


def gids() -> dict[str, list[str]]:
    """Return the filled entries of every device's GID table, as texts."""
    base, found = "/sys/class/infiniband", {}
    for device in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        table = os.path.join(base, device, "ports/1/gids")
        entries = [(index, read_text(os.path.join(table, str(index)))) for index in range(32)]
        found[device] = [f"{index} {gid}" for index, gid in entries if gid and gid.strip("0:")]
    return found


def is_here(address: str) -> bool:
    """Tell whether an address is one of this machine."""
    try:
        for family, kind, protocol, _name, place in socket.getaddrinfo(address, 0, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(place)
                return True
    except OSError:
        pass
    return False


def folder_of(document: dict[str, t.Any]) -> str:
    """Return the folder of this launch on this node, made when it is missing; nobody else can have put it there."""
    path = f"/tmp/dgxspark-fabric-nccl-{os.getuid()}-{document['run']}"
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        state = os.lstat(path)
        if state.st_uid != os.getuid() or (state.st_mode & 0o170077) != 0o40000:
            raise SystemExit(f"{path} on {socket.gethostname()} belongs to somebody else; remove it")
    return path


def stem_of(document: dict[str, t.Any], rank: int) -> str:
    """Return how the names of a rank's files begin."""
    return os.path.join(folder_of(document), f"{document['test']}.rank{rank}")


def write_json(path: str, value: t.Any) -> None:
    """Replace a file by a JSON document."""
    with open(f"{path}.new", "w", encoding="utf-8") as stream:
        json.dump(value, stream)
    os.replace(f"{path}.new", path)


def environment_for(document: dict[str, t.Any], rank: int) -> dict[str, str]:
    """Return the environment of the program: the node's own ``nccl.env`` where it is installed, else the plan's; with what the test adds."""
    planned = document["environments"][rank]
    installed = settings_of(read_text(document["environment_file"])) if document.get("environment_file") else {}
    chosen = {**(installed or planned), **document.get("added", {})}
    result = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "UCX_", "GLOO_"))}
    for name, value in chosen.items():
        # mpirun names the same settings by network, which holds on every node; names of interfaces do not.
        if not (name.startswith("OMPI_MCA_") and name in os.environ) and name != "NCCL_DEBUG":
            result[name] = value
    libraries = [folder for folder in document.get("libraries", []) if folder] + [result.get("LD_LIBRARY_PATH", "")]
    result["LD_LIBRARY_PATH"] = ":".join(folder for folder in libraries if folder)
    return result


def search_file(path: str, names: list[str]) -> tuple[str | None, dict[str, bool]]:
    """Return the version of an NCCL library, and for each name whether the library has it as a text."""
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            version = VERSION.search(content)
            # A text in a program ends with a zero byte, so that NCCL_ALGO is not found in NCCL_ALGO_X.
            known = {name: content.find(name.encode() + b"\0") >= 0 for name in names}
            return version[1].decode() if version else None, known
    except (OSError, ValueError):
        return None, {}


def program_marks(path: str) -> tuple[bool, bool]:
    """Return whether a program of nccl-tests can write JSON, and whether it is the stand-in."""
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(WRITES_JSON) >= 0, content.find(STAND_IN) >= 0
    except (OSError, ValueError):
        return False, False


def library_of(document: dict[str, t.Any], environment: dict[str, str]) -> str | None:
    """Return the path of the NCCL that the program will load: what the loader says, else the first in the folders given."""
    program = document["program"]
    linked = re.search(rf"{re.escape(LIBRARY)} => (\S+)", output(["ldd", program], environment=environment)) if os.access(program, os.R_OK) else None
    if linked and os.path.exists(linked[1]):
        return os.path.realpath(linked[1])
    if linked:
        return None
    return next((os.path.realpath(path) for folder in document.get("libraries", []) if os.path.exists(path := os.path.join(folder, LIBRARY))), None)


def limit_of(kind: int) -> int | str:
    """Return a limit in bytes, or "unlimited"."""
    soft = resource.getrlimit(kind)[0]
    return "unlimited" if soft == resource.RLIM_INFINITY else soft


def memory_available() -> int | None:
    """Return the bytes of memory that a program can have now, None when the kernel does not say."""
    match = re.search(r"MemAvailable:\s+(\d+) kB", read_text("/proc/meminfo") or "")
    return int(match[1]) * 1024 if match else None


def probe(document: dict[str, t.Any], rank: int) -> dict[str, t.Any]:
    """Return everything about this node that a launch depends on, seen from inside a launch."""
    environment = environment_for(document, rank)
    library = library_of(document, environment)
    names = document.get("ask_for", [])
    version, known = search_file(library, names) if library else (None, {})
    writes_json, stand_in = program_marks(document["program"])
    configurations = ["/etc/nccl.conf", os.path.expanduser("~/.nccl.conf")]
    devices = sorted(name for name in os.listdir("/dev/infiniband")) if os.path.isdir("/dev/infiniband") else []
    mpirun = output(["mpirun", "--version"]).splitlines()
    return {
        "rank": rank,
        "hostname": socket.gethostname(),
        "architecture": os.uname().machine,
        "mpi_version": next(iter(re.findall(r"(\d+\.\d+\.\d+\S*)", mpirun[0] if mpirun else "")), None),
        "program": document["program"] if os.access(document["program"], os.X_OK) else None,
        "stand_in": stand_in,
        "writes_json": writes_json,
        "nccl_library": library,
        "nccl_version": version,
        "known": known,
        "memlock_bytes": limit_of(resource.RLIMIT_MEMLOCK),
        "memory_available_bytes": memory_available(),
        "gpus": len(os.listdir("/proc/driver/nvidia/gpus")) if os.path.isdir("/proc/driver/nvidia/gpus") else 0,
        "infiniband": devices,
        "rdma_devices": sorted(os.listdir("/sys/class/infiniband")) if os.path.isdir("/sys/class/infiniband") else [],
        "configurations": {path: settings_of(read_text(path)) for path in configurations if os.path.exists(path)},
        "environment": {name: value for name, value in os.environ.items() if name.startswith("NCCL_")},
        "installed": settings_of(read_text(document["environment_file"])) if document.get("environment_file") else {},
        "container": in_container(document, rank, "look", document["deadline_seconds"]) if document.get("container") else None,
        "ended": end_marked(None),
    }


def container_command(document: dict[str, t.Any], rank: int, action: str, **more: t.Any) -> list[str]:
    """Return the command of the program that knows containers (``nccl_container``)."""
    given = {**{name: document.get(name) for name in ("run", "test", "program", "ask_for")}, "rank": rank, "user": [os.getuid(), os.getgid()], "names": []}
    given.update(document["container"]["job"], **more)
    return [sys.executable, "-c", document["container"]["source"], action, json.dumps(given)]


def in_container(document: dict[str, t.Any], rank: int, action: str, seconds: float) -> t.Any:
    """Look into the image, or end its containers; return what that says, None when it says nothing."""
    try:
        return json.loads(output(container_command(document, rank, action, seconds=max(5, seconds - 10)), seconds))
    except ValueError:
        return None


def end_marked(run: str | None) -> list[str]:
    """End this user's processes that a launch started (``run``: that one alone); return what they were."""
    ended = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        variables = (read_text(f"/proc/{entry}/environ", 1 << 20) or "").split("\0")
        mark = next((variable.partition("=")[2] for variable in variables if variable.startswith(MARK + "=")), None)
        if mark is not None and (run is None or mark.rpartition(".")[0] == run or mark == run):
            try:
                os.kill(int(entry), signal.SIGKILL)
            except OSError:
                continue
            ended.append(f"{read_text(f'/proc/{entry}/comm') or 'process'} ({entry})")
    return ended


class Watch:
    """The program under watch: ended at the deadline, with our launcher, and with us."""

    def __init__(self, arguments: list[str], environment: dict[str, str], seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.launcher = os.getppid()
        self.stopped: int | None = None
        signal.signal(signal.SIGTERM, self.on_signal)
        signal.signal(signal.SIGHUP, self.on_signal)
        signal.signal(signal.SIGINT, self.on_signal)
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, env=environment, preexec_fn=die_with_parent)

    def on_signal(self, number: int, frame: object) -> None:
        """Note a signal; the loop acts on it."""
        self.stopped = self.stopped or 128 + number

    def wait(self) -> int:
        """Return the exit status, 128 and more for a signal, 124 at the deadline."""
        while True:
            try:
                status = self.process.wait(timeout=0.25)
                return status if status >= 0 else 128 - status
            except subprocess.TimeoutExpired:
                pass
            if self.stopped is None and time.monotonic() > self.until:
                self.stopped = DEADLINE
            if self.stopped is None and os.getppid() != self.launcher:
                self.stopped = 128 + signal.SIGHUP
            if self.stopped is not None:
                self.process.kill()
                self.process.wait()
                return self.stopped

    def end_launcher(self) -> None:
        """End the daemon that started us, when it is one: past the deadline its own launcher is gone or deaf."""
        if os.getppid() == self.launcher and (read_text(f"/proc/{self.launcher}/comm") or "") in ("orted", "prted"):
            os.kill(self.launcher, signal.SIGKILL)


def die_with_parent() -> None:
    """Ask the kernel to kill the program when its watcher dies, however that happens."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def run(document: dict[str, t.Any], rank: int) -> int:
    """Run the program; keep its exit status, counters, GIDs and log in the launch's folder."""
    stem = stem_of(document, rank)
    environment = environment_for(document, rank)
    environment[MARK] = f"{document['run']}.{document['test']}"
    if document.get("debug", True):
        environment.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS=SUBSYSTEMS, NCCL_DEBUG_FILE=stem + ".log")
    report = {"rank": rank, "hostname": socket.gethostname(), "before": counters(), "gids_before": gids(), "started": time.time()}
    write_json(stem + ".json", report)
    arguments = [stem + ".results.json" if argument == RESULTS else argument for argument in document["arguments"]]
    command = [document["program"], *arguments]
    if document.get("container"):
        installed = document["environment_file"] if settings_of(read_text(document.get("environment_file") or "")) else None
        mine = {*document.get("added", {}), *({} if installed else document["environments"][rank])}
        names = [name for name in environment if name.startswith("NCCL_DEBUG") or name in mine]
        place = {"folder": os.path.dirname(stem), "environment_file": installed}
        command = container_command(document, rank, "run", arguments=arguments, names=names, seconds=document["deadline_seconds"], **place)
    watch = Watch(command, environment, document["deadline_seconds"])
    status = watch.wait()
    if status and document.get("container"):
        in_container(document, rank, "end", 30)
    report.update(exit_code=status, after=counters(), gids_after=gids(), ended=time.time(), deadline=status == DEADLINE)
    write_json(stem + ".json", report)
    if status == DEADLINE:
        watch.end_launcher()
    return status


def collect(document: dict[str, t.Any], rank: int) -> int:
    """Print what the rank of a launch left behind, end what is left of it, and remove its files."""
    ended = [*((in_container(document, rank, "end", 25) or []) if document.get("container") else []), *end_marked(document["run"])]
    stem = stem_of(document, rank)
    folder = os.path.dirname(stem)
    try:
        report = json.loads(read_text(stem + ".json", LOG_LIMIT) or "null")
    except ValueError:
        report = None
    if report is not None and "before" in report and "after" not in report:
        report.update(after=counters(), gids_after=gids())
    log = read_text(stem + ".log", LOG_LIMIT)
    say(sys.stdout, json.dumps({
        "report": report,
        "log": base64.b64encode(zlib.compress(log.encode())).decode() if log else None,
        "ended": ended,
        "json": read_text(stem + ".results.json", LOG_LIMIT),
    }))
    for name in os.listdir(folder):
        if name.startswith(os.path.basename(stem) + "."):
            os.unlink(os.path.join(folder, name))
    if not os.listdir(folder):
        os.rmdir(folder)
    return 0


def say(stream: t.TextIO, line: str) -> None:
    """Write a line at once: this is a program of its own, whose output mpirun collects."""
    stream.write(line + "\n")
    stream.flush()


def main(action: str, text: str) -> int:
    """Do what was asked; the exit status is the program's."""
    document = json.loads(text)
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMIX_RANK", document.get("rank", -1))))
    if not 0 <= rank < len(document["ranks"]):
        say(sys.stderr, f"fabric-rank: no rank for this process on {socket.gethostname()} (got {rank})")
        return 2
    here = document["ranks"][rank]
    if action != "collect" and not is_here(here["address"]):
        say(sys.stderr, f"fabric-rank: rank {rank} belongs on {here['node']} ({here['address']}), but was started on {socket.gethostname()}")
        return WRONG_NODE
    os.umask(0o077)
    if action == "probe":
        write_json(stem_of(document, rank) + ".json", probe(document, rank))
        say(sys.stdout, f"fabric-rank {rank} {socket.gethostname()}")
        return 0
    return {"run": run, "collect": collect}[action](document, rank)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2]))
