# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ways to break the lab besides ``lab fault``: on a node, on a wire, on the management network. A reset of the lab undoes them all."""

from __future__ import annotations

import shlex
import time

from conftest import Lab

#: A table of the lab's network that is ours, beside the one of ``lab fault``.
TABLE = "matrix"
CONTROL_PORTS = "{ 18500, 18600-18700 }"
SLOW = "20mbit"
PERFTEST = "/usr/bin/ib_write_bw"


def wire_rules(lab: Lab, *rules: str) -> None:
    """Set the filter rules on all bridges of the lab's network: forwarded, from and to this host; none removes them."""
    body = "".join(f" chain {hook} {{ type filter hook {hook} priority 10; policy accept; {'; '.join(rules)}; }}\n" for hook in ("forward", "input", "output"))
    text = f"table bridge {TABLE}\ndelete table bridge {TABLE}\n" + (f"table bridge {TABLE} {{\n{body}}}\n" if rules else "")
    lab.call("exec", "--", "sh", "-c", f"nft -f - <<'END'\n{text}END")


def tidy(lab: Lab) -> None:
    """Undo what a reset does not undo: rules and ports of the lab's own network."""
    wire_rules(lab)
    lab.call("exec", "--", "sh", "-c", "for end in x1 x2 x3; do ! ip link show $end >/dev/null 2>&1 || ip link set $end master switch; done")


def block_ssh(lab: Lab, node: str) -> None:
    """Drop all that goes to a node's ssh port."""
    wire_rules(lab, f"oifname m{node[-1]} tcp dport 22 drop")


def lose_ssh_for_a_while(lab: Lab, node: str, seconds: float) -> None:
    """Let the ssh connections of a node die in the middle of its tests, and come back."""
    wait_for_tool(lab, node)
    block_ssh(lab, node)
    time.sleep(seconds)
    wire_rules(lab)


def wait_for_tool(lab: Lab, node: str, limit: float = 200) -> None:
    """Wait until a node measures."""
    until = time.monotonic() + limit
    while time.monotonic() < until and "ib_write_bw" not in lab.ssh(node, "pgrep -a ib_write_bw || true", check=False):
        time.sleep(0.5)


def kill_measuring(lab: Lab, node: str) -> None:
    """Switch a node off while it measures."""
    wait_for_tool(lab, node)
    lab.fault("kill", node)


def block_ssh_measuring(lab: Lab, node: str) -> None:
    """Cut a node off from the controller, for good, while it measures."""
    wait_for_tool(lab, node)
    block_ssh(lab, node)


def kill_server(lab: Lab, node: str) -> None:
    """Kill a node's perftest server once, in mid-test."""
    # A server's command line has no address at its end.
    pattern = shlex.quote("ib_write_bw .*-u [0-9]+$")
    lab.ssh(node, f"for i in $(seq 300); do pgrep -f {pattern} >/dev/null && break; sleep 0.3; done; sleep 2; pkill -KILL -f {pattern}", check=False)


def low_mtu_of_rdma(lab: Lab, node: str, device: str) -> None:
    """Let the tool of a node use small RDMA packets on one device, whose interface keeps its MTU."""
    script = f'#!/bin/sh\ncase " $* " in *" -d {device} "*) exec {PERFTEST}.whole -m 1024 "$@";; esac\nexec {PERFTEST}.whole "$@"\n'
    lab.ssh(node, f"mv {PERFTEST} {PERFTEST}.whole && printf %s {shlex.quote(script)} >{PERFTEST} && chmod 755 {PERFTEST}")


def no_perftest(lab: Lab, node: str) -> None:
    """Take the tool away from a node."""
    lab.ssh(node, f"mv {PERFTEST} {PERFTEST}.gone")


def slow_rail(lab: Lab, *ends: tuple[str, str]) -> None:
    """Slow down what interfaces send."""
    for node, interface in ends:
        lab.ssh(node, f"tc qdisc add dev {interface} root netem rate {SLOW} limit 10000")


def hide_gid(lab: Lab, node: str, device: str) -> None:
    """Empty the entries of an IPv4 address in a device's GID table; address and link stay."""
    lab.ssh(node, "echo 0000:0000:0000:0000:0000:0000:0000:0000 >/run/no-gid\n"
            f"for gid in $(grep -l '^0000:0000:0000:0000:0000:ffff:' /sys/class/infiniband/{device}/ports/1/gids/*); do mount --bind /run/no-gid $gid; done")


def mix_up_twins(lab: Lab, node: str, peer: str, interfaces: tuple[str, str], addresses: tuple[str, str]) -> None:
    """Take the ARP settings away, and let a node hold the other twin's MAC for both addresses of a peer, as it then happens.

    ``interfaces`` are rail a's and rail b's, the same at both ends; ``addresses`` those of the peer.
    """
    settings = " ".join(f"net.ipv4.conf.{name}.arp_ignore=0 net.ipv4.conf.{name}.arp_announce=0" for name in interfaces)
    for each in (node, peer):
        lab.ssh(each, f"sysctl -qw {settings}")
    macs = lab.ssh(peer, " ".join(["cat", *(f"/sys/class/net/{name}/address" for name in interfaces)])).split()
    for name, address, mac in zip(interfaces, addresses, reversed(macs), strict=True):
        lab.ssh(node, f"ip neigh replace {address} lladdr {mac} nud permanent dev {name}")


def replace_address(lab: Lab, node: str, interface: str, *, gone: str = "", new: str = "") -> None:
    """Take an address (with prefix) from an interface, give it one."""
    steps = [f"ip address {verb} {address} dev {interface}" for verb, address in (("del", gone), ("add", new)) if address]
    lab.ssh(node, " && ".join(steps))


def low_memlock(lab: Lab, node: str) -> None:
    """Let new logins lock little memory."""
    lab.ssh(node, "printf 'root hard memlock 512\\nroot soft memlock 512\\n' >/etc/security/limits.d/99-low.conf")


def open_queue_pairs(lab: Lab, client: tuple[str, str], server: tuple[str, str], address: str) -> None:
    """Run a program with RDMA queue pairs between two nodes, each given with its device."""
    load = "systemd-run --quiet --unit=fabric-test-load ib_write_bw -x 1 -p 19999 --run_infinitely -D 5 -d"
    lab.ssh(server[0], f"{load} {server[1]}; for i in $(seq 40); do grep -q :4E1F /proc/net/tcp /proc/net/tcp6 && break; sleep 0.5; done")
    lab.ssh(client[0], f"{load} {client[1]} {address}; for i in $(seq 40); do rdma -j res show qp | grep -q ib_write_bw && break; sleep 0.5; done")
