# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the ssh files of each node should hold, from what all nodes said of themselves. Pure functions.

A node that did not answer in this run keeps its place in the files of the others; one that left the inventory loses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils.ssh_mesh_files import KEY, KNOWN_HOSTS

COMMENT = "dgxspark-fabric:"
PARTS = ("authorized_keys", "known_hosts", "config")
WHAT = {"authorized_keys": "the keys of the other nodes in authorized_keys", "known_hosts": "the host keys of the other nodes",
        "config": "our block in ~/.ssh/config"}


def names_of(plan: Mapping[str, Any], node: str) -> list[str]:
    """Return the names by which a node is reached on the management network: its name in the inventory, and its address."""
    return list(dict.fromkeys([node, str(plan["nodes"][node]["management"]["address"])]))


def targets(plan: Mapping[str, Any], seen: Mapping[str, Mapping[str, Any]], node: str) -> list[dict[str, Any]]:
    """Return the other nodes that answered, for the proof."""
    return [{"node": other, "names": names_of(plan, other), "user": seen[other]["user"]} for other in plan["nodes"] if other != node and other in seen]


def _kept(lines: Sequence[str], absent: Sequence[str], part: str) -> dict[str, list[str]]:
    """Return the lines that a node's files hold of nodes that did not answer."""
    found: dict[str, list[str]] = {}
    for line in lines:
        owner = line.rpartition(COMMENT)[2].strip() if part == "authorized_keys" else line.partition(" ")[0].partition(",")[0]
        if owner in absent:
            found.setdefault(owner, []).append(line)
    return found


def wanted(plan: Mapping[str, Any], seen: Mapping[str, Mapping[str, Any]], node: str) -> dict[str, list[str]]:
    """Return the lines of each part of a node's files.

    Args:
        plan: The plan.
        seen: What each node that answered said (``ssh`` of the module ``ssh_mesh``).
        node: One of them.
    """
    others = [name for name in plan["nodes"] if name != node]
    absent = [name for name in others if name not in seen]
    own = seen[node]
    kept = {part: _kept(own[part], absent, part) for part in ("authorized_keys", "known_hosts")}
    users = {name: str(seen[name]["user"]) for name in others if name in seen} | _users(own["config"], absent, plan)
    authorized: list[str] = []
    known: list[str] = []
    for name in others:
        if name in absent:
            authorized += kept["authorized_keys"].get(name, [])
            known += kept["known_hosts"].get(name, [])
            continue
        if seen[name]["public_key"]:
            authorized.append(f"{seen[name]['public_key']} {COMMENT}{name}")
        known += [f"{','.join(names_of(plan, name))} {key}" for key in seen[name]["host_keys"]]
    return {"authorized_keys": authorized, "known_hosts": known, "config": _config(plan, {name: users[name] for name in others if name in users})}


def _users(config: Sequence[str], absent: Sequence[str], plan: Mapping[str, Any]) -> dict[str, str]:
    """Return the users that a node's configuration names for nodes that did not answer."""
    found, current = {}, None
    for line in config:
        word, _blank, rest = line.strip().partition(" ")
        if word == "Host":
            current = next((name for name in absent if rest.split() == names_of(plan, name)), None)
        elif word == "User" and current is not None:
            found[current] = rest.strip()
    return found


def _config(plan: Mapping[str, Any], users: Mapping[str, str]) -> list[str]:
    """Return the ssh configuration: user and address of each node, and what holds for all of them.

    ssh takes the first value that it finds (ssh_config(5)), so the block stands at the top of the file. It ends with "Host *", since what the user
    wrote above any Host line holds for all hosts, and must go on to do so.
    """
    if not users:
        return []
    lines = []
    for name, user in users.items():
        lines += [f"Host {' '.join(names_of(plan, name))}", f"    HostName {plan['nodes'][name]['management']['address']}", f"    User {user}"]
    every = " ".join(word for name in users for word in names_of(plan, name))
    lines += [f"Host {every}", f"    IdentityFile ~/{KEY}", "    IdentitiesOnly yes", f"    UserKnownHostsFile ~/{KNOWN_HOSTS}",
              "    StrictHostKeyChecking yes", "Host *"]
    return lines


def drift(plan: Mapping[str, Any], seen: Mapping[str, Mapping[str, Any]], node: str) -> list[dict[str, Any]]:
    """Return how a node's files deviate, as entries of the drift list."""
    own, should = seen[node], wanted(plan, seen, node)
    entries = []

    def add(key: str, live: str, message: str) -> None:
        entries.append({"host": node, "subject": "ssh mesh", "key": key, "wanted": "as planned", "live": live, "message": f"{node}: {message}"})

    if not own["public_key"]:
        add("key", "missing", f"user {own['user']} has no key pair for the ssh mesh (~/{KEY})")
    for part in PARTS:
        missing = [line for line in should[part] if line not in own[part]]
        surplus = [line for line in own[part] if line not in should[part]]
        if own[part] != should[part]:
            detail = ", ".join(text for text in (f"{len(missing)} lines missing" if missing else "",
                                                 f"{len(surplus)} lines too many" if surplus else "") if text)
            add(part, "differs", f"{WHAT[part]} of user {own['user']}: {detail or 'in another order'}")
    for path in own["too_open"]:
        add("mode", "too open", f"{path} may be written by others, so that ssh ignores it: chmod go-w {path}")
    return entries


def mesh(plan: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]], names: Sequence[str], result: str) -> dict[str, dict[str, Any]]:
    """Return for each host that answered: the wanted lines, whether they differ, the drift list, and whom to connect to.

    Args:
        plan: The plan.
        hosts: The facts of each host.
        names: The hosts of the play.
        result: The variable that holds a host's result of the module ``ssh_mesh``.
    """
    seen = {}
    for name in names:
        said = (hosts[name].get(result) or {}).get("ssh")
        if said and name in plan["nodes"]:
            seen[str(name)] = said
    found = {}
    for name in seen:
        entries = drift(plan, seen, name)
        found[name] = {**wanted(plan, seen, name), "drift": entries, "differs": any(entry["key"] != "key" for entry in entries),
                       "targets": targets(plan, seen, name)}
    return found
