# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A rank's program inside a container image: docker or podman looks into it, runs the program, ends what is left.

A program of its own, like ``nccl_rank``, which gets its text and starts it: ``python3 -c TEXT ACTION JSON``. It imports the standard library alone. Nothing
has to be installed in the image but a shell and coreutils. The image is never changed, and pulled only when the document says so.

``look`` prints what is inside as JSON, ``run`` becomes the engine's client, ``end`` removes the containers of a run and prints those that still ran.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import typing as t

ENGINES = ("docker", "podman")
LABEL = "dgxspark.fabric.nccl"
#: What mpirun, its daemon and this launch tell the program; all else in the environment is the host's affair.
PASSED = ("OMPI_", "PMIX_", "PRTE_", "PMI_", "FABRIC_NCCL_RUN")
#: Where the host's MPI is installed is not where the image's is.
KEPT_OUT = ("PMIX_INSTALL_PREFIX", "OMPI_APP_CTX_NUM_PROCS", "PRTE_PREFIX")
#: Folders in which a program finds its daemon: PMIx keeps shared files there.
SESSIONS = ("PMIX_SERVER_TMPDIR", "OMPI_MCA_orte_jobfam_session_dir", "PRTE_MCA_prte_jobfam_session_dir")
ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
#: Seconds in which an engine says what it knows.
ASK_SECONDS = 20
#: Seconds that the limit inside the container lies beyond the rank's own, which leaves a report.
LIMIT_MARGIN = 15
GPUS = "/proc/driver/nvidia/gpus"
ABSENT = re.compile(r"no such image|image not known|no such object|failed to find image|unable to find image", re.I)
VERSION = "NCCL version [0-9]+[.][0-9]+[.][0-9]+"
#: Arguments: the program, the pattern of texts to look for in libraries, folders with libraries joined by colons.
LOOK = r"""
export LC_ALL=C
[ -z "$3" ] || export LD_LIBRARY_PATH="$3${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
echo "@@tools"; for tool in timeout grep tr sort cat ls; do command -v $tool >/dev/null || echo $tool; done
echo "@@memlock"; ulimit -l
echo "@@infiniband"; ls /dev/infiniband 2>/dev/null
for file in /etc/nccl.conf "${HOME:-/root}/.nccl.conf"; do [ ! -e "$file" ] || { echo "@@configuration $file"; cat "$file"; echo; }; done
echo "@@environment"; env | grep '^NCCL_'
echo "@@mpi"; mpirun --version 2>/dev/null
echo "@@program"; [ ! -x "$1" ] || echo "$1"
echo "@@marks"; grep -a -o -e 'Writing JSON output' -e 'stand-in of dgxspark.fabric' "$1" 2>/dev/null | sort -u
echo "@@loaded"; [ ! -x "$1" ] || LD_TRACE_LOADED_OBJECTS=1 "$1" 2>&1
echo "@@libraries"
loaded=$(LD_TRACE_LOADED_OBJECTS=1 "$1" 2>/dev/null | grep -o 'libnccl[.]so[.]2 => /[^ ]*' | grep -o '/.*')
{ echo "$loaded"; echo "$3:${LD_LIBRARY_PATH:-}" | tr : '\n' | while read -r folder; do [ ! -e "$folder/libnccl.so.2" ] || echo "$folder/libnccl.so.2"; done
find /usr /opt /root /home /workspace -name libnccl.so.2 2>/dev/null; } | grep . | while read -r path; do
  echo "@@library $path"; tr '\0' '\n' <"$path" | grep -a -o -E "$2" | sort -u
done
echo "@@end"
"""
#: Arguments: folders with libraries, then the words of timeout.
RUN = 'export LD_LIBRARY_PATH="$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; shift; exec timeout -s KILL "$@"'


def ask(arguments: list[str], seconds: float = ASK_SECONDS) -> tuple[int, str, str]:
    """Return exit status, output and errors of a program; 124 when it does not end in time."""
    try:
        done = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds, check=False, start_new_session=True,
            env={**os.environ, "LC_ALL": "C"})
    except OSError as error:
        return 127, "", str(error)
    except subprocess.TimeoutExpired:
        return 124, "", f"{os.path.basename(arguments[0])} {arguments[1]} gave no answer in {seconds:g} s"
    return done.returncode, done.stdout, done.stderr


def last_line(text: str) -> str:
    """Return the last line of a text that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip() and line.strip() != "[]"), "")[:300]


def trouble(text: str) -> str:
    """Return what an engine's refusal is about: the image, or the engine itself."""
    return "image_missing" if ABSENT.search(text) else "engine_refused"


def container_name(document: dict[str, t.Any]) -> str:
    """Return the name of a rank's container."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", f"fabric-nccl-{document['run']}-{document['test']}-rank{document['rank']}")


def choose(document: dict[str, t.Any]) -> tuple[str | None, str, list[dict[str, str]]]:
    """Return the engine that has the image, what that says of it ("ID ARCHITECTURE"), and what the others said."""
    tried = []
    wanted = [document["engine"]] if document.get("engine") else ENGINES
    for name in wanted:
        path = shutil.which(name)
        if path is None:
            continue
        status, out, err = ask([path, "image", "inspect", "--format", "{{.Id}} {{.Architecture}}", document["image"]])
        if status == 0:
            return path, last_line(out), tried
        tried.append({"engine": name, "path": path, "id": trouble(err), "text": last_line(err) or f"exit status {status}"})
    return None, "", tried


def pull(document: dict[str, t.Any], tried: list[dict[str, str]]) -> dict[str, str] | None:
    """Fetch the image by the first engine that only lacks it; return what went wrong."""
    engine = next((entry for entry in tried if entry["id"] == "image_missing"), None)
    if engine is None:
        return None
    status, _out, err = ask([engine["path"], "pull", document["image"]], document["pull_seconds"])
    return None if status == 0 else {"engine": engine["engine"], "id": "pull_failed", "text": last_line(err) or f"exit status {status}"}


def run_command(engine: str, document: dict[str, t.Any], environment: dict[str, str], entry: list[str], gpus: bool, device: bool) -> list[str]:
    """Return the engine's command line that runs ``entry`` in the image.

    :param environment: of the launch; what the program has to know of it is passed by name, so that values stay out of the process list
    :param gpus: whether the node has GPUs to pass
    :param device: whether the node has /dev/infiniband; without it no option names it
    """
    podman = os.path.basename(engine) == "podman"
    options = [str(option) for option in document["options"] if device or str(option) != "--device=/dev/infiniband"]
    if gpus and not any("gpu" in option for option in options):
        options += ["--device=nvidia.com/gpu=all"] if podman else ["--gpus=all"]
    user, group = document["user"]
    if user:
        options += ["--userns=keep-id"] if podman else [f"--user={user}:{group}"]
    folders = dict.fromkeys(folder for name in SESSIONS if os.path.isdir(folder := environment.get(name, "")))
    mounts = [f"--volume={folder}:{folder}" for folder in [document.get("folder"), *folders] if folder]
    if document["mount"]:
        mounts.append(f"--volume={document['mount']}:{document['mount']}:ro")
    # A later --env wins over the file, as a launcher's own setting should.
    names = {name for name in environment if name.startswith(PASSED) and name not in KEPT_OUT} | {name for name in document["names"] if name in environment}
    passed = [f"--env-file={document['environment_file']}"] if document.get("environment_file") else []
    passed += [f"--env={name}" for name in sorted(names)]
    return [
        engine, "run", "--rm", "--pull=never", f"--name={container_name(document)}", f"--label={LABEL}={document['run']}", "--log-driver=none",
        "--network=host", "--uts=host", *options, *mounts, *passed, f"--entrypoint={entry[0]}", document["image"], *entry[1:],
    ]


def program_entry(document: dict[str, t.Any]) -> list[str]:
    """Return what runs the program inside: with a limit of its own, which holds when the client, its rank and the launching node are all gone."""
    words = [str(int(document["seconds"] + LIMIT_MARGIN)), document["program"], *document["arguments"]]
    if document["libraries"]:
        return ["sh", "-c", RUN, "fabric", ":".join(document["libraries"]), *words]
    return ["timeout", "-s", "KILL", *words]


def look_entry(document: dict[str, t.Any]) -> list[str]:
    """Return what looks round inside."""
    names = "|".join(document["ask_for"])
    pattern = f"{VERSION}|({names})$" if names else VERSION
    return ["sh", "-c", LOOK, "fabric", document["program"], pattern, ":".join(document["libraries"])]


def parse_look(text: str, names: list[str]) -> dict[str, t.Any]:
    """Return what the look printed: its sections as values; ``complete`` tells whether it came to its end."""
    sections: list[tuple[str, str, list[str]]] = [("", "", [])]
    for line in text.splitlines():
        if line.startswith("@@"):
            kind, _space, about = line[2:].partition(" ")
            sections.append((kind, about, []))
        elif line.strip():
            sections[-1][2].append(line.strip())
    lines = {kind: found for kind, about, found in sections if not about}
    limit = next(iter(lines.get("memlock", [])), "")
    libraries = {about: found for kind, about, found in sections if kind == "library"}
    versions = {path: next((line.rpartition(" ")[2] for line in found if line.startswith("NCCL version ")), None) for path, found in libraries.items()}
    chosen = next(iter(libraries), None)
    mpi = re.search(r"(\d+\.\d+\.\d+\S*)", next(iter(lines.get("mpi", [])), ""))
    return {
        "complete": "end" in lines,
        "lacks": lines.get("tools", []),
        "memlock_bytes": int(limit) * 1024 if limit.isdigit() else limit or None,
        "infiniband": lines.get("infiniband", []),
        "configurations": {about: settings(found) for kind, about, found in sections if kind == "configuration"},
        "environment": settings(lines.get("environment", [])),
        "mpi_version": mpi[1] if mpi else None,
        "program": next(iter(lines.get("program", [])), None),
        "writes_json": "Writing JSON output" in lines.get("marks", []),
        "stand_in": "stand-in of dgxspark.fabric" in lines.get("marks", []),
        "unloadable": [line.partition(" =>")[0] for line in lines.get("loaded", []) if "=> not found" in line],
        "loader": next((line for line in lines.get("loaded", []) if "GLIBC" in line or "cannot" in line), None),
        "nccl_library": chosen,
        "nccl_version": versions.get(chosen or ""),
        # A text may stand at the end of a longer one, as it does for who searches the file itself.
        "known": {name: any(line.endswith(name) for line in libraries[chosen]) for name in names} if chosen else {},
        "libraries": versions,
    }


def settings(lines: list[str]) -> dict[str, str]:
    """Return the assignments of NCCL and its relatives in some lines."""
    found = {}
    for line in lines:
        match = re.fullmatch(r"(?:export\s+)?((?:NCCL|UCX|GLOO|OMPI_MCA)_[A-Z0-9_a-z]{1,60})=(.*)", line)
        if match:
            found[match[1]] = match[2].strip("\"'")
    return found


def look(document: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return what is inside the image, or the problem that hides it."""
    ended = end({**document, "run": None})
    engine, said, tried = choose(document)
    pulled = None
    if engine is None and document["pull"]:
        pulled = pull(document, tried)
        if pulled is None:
            engine, said, tried = choose(document)
    if engine is None:
        first = pulled or next((entry for entry in tried if entry["id"] == "image_missing"), next(iter(tried), None))
        return {"problem": first or {"id": "engine_missing", "engine": document.get("engine") or " or ".join(ENGINES), "text": ""}, "tried": tried}
    identity, _space, architecture = said.rpartition(" ")
    found = {"engine": os.path.basename(engine), "image_id": identity.rpartition(":")[2], "image_architecture": architecture, "problem": None, "ended": ended}
    here = os.uname().machine
    if architecture != ARCHITECTURES.get(here, here):
        return {**found, "problem": {"id": "architecture", "engine": found["engine"], "text": f"{architecture} instead of {ARCHITECTURES.get(here, here)}"}}
    command = run_command(engine, document, {}, look_entry(document), os.path.isdir(GPUS), os.path.isdir("/dev/infiniband"))
    status, out, err = ask(command, document["seconds"])
    inside = parse_look(out, document["ask_for"])
    if status == 124:
        end(document)
    if status or not inside["complete"]:
        return {**found, "problem": {"id": "not_started", "engine": found["engine"], "text": last_line(err) or f"exit status {status}"}}
    return {**found, **inside}


def end(document: dict[str, t.Any]) -> list[str]:
    """Remove this user's containers of a run (of every run without one); return those that still ran."""
    label = f"{LABEL}={document['run']}" if document.get("run") else LABEL
    running = []
    for name in ENGINES:
        path = shutil.which(name)
        status, out, _err = ask([path, "ps", "-a", "--filter", f"label={label}", "--format", "{{.ID}} {{.Names}} {{.State}}"]) if path else (1, "", "")
        for words in [line.split() for line in out.splitlines() if status == 0]:
            if len(words) >= 2:
                ask([path or name, "rm", "-f", words[0]])
                running += [f"container {words[1]}"] if "running" in words[2:] else []
    return running


def main(action: str, text: str) -> int:
    """Do what was asked."""
    document = json.loads(text)
    if action == "run":
        engine, _said, tried = choose(document)
        if engine is None:
            sys.stderr.write(f"fabric-rank: {document['image']} cannot be run: {'; '.join(entry['text'] for entry in tried) or 'no docker, no podman'}\n")
            return 125
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        command = run_command(engine, document, environment, program_entry(document), os.path.isdir(GPUS), os.path.isdir("/dev/infiniband"))
        os.execve(engine, command, environment)
    sys.stdout.write(json.dumps(look(document) if action == "look" else end(document)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2]))
