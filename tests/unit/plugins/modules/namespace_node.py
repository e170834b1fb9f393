# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node in a network and mount namespace of its own: real interfaces, real netplan, real modules, and stand-ins for systemd and the renderer.

The stand-in of the renderer does what systemd-networkd does with netplan's configuration, as far as addresses and MTU go: an interface in the
configuration gets exactly those, one that is not is left as it is. Needs root; nothing outside the namespaces is touched.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[4]
MODULES = ROOT / "plugins/modules"
COLLECTIONS = ROOT / ".ansible/collections"
INTERFACES = ("enp1s0f0np0", "enP2p1s0f0np0", "enp1s0f1np1", "enP2p1s0f1np1")
MANAGEMENT = ("enP7s7", "10.77.0.11")

SETUP = """\
set -e
base=$1
for place in etc var/lib usr/local/sbin; do
    mkdir -p $base/$place/upper $base/$place/work
    mount -t overlay overlay -o lowerdir=/$place,upperdir=$base/$place/upper,workdir=$base/$place/work /$place
done
mount -t tmpfs run /run
mount -t sysfs sysfs /sys
mkdir -p /etc/netplan /etc/sysctl.d /etc/systemd/system /etc/systemd/network /etc/NetworkManager/system-connections /run/systemd/network
rm -rf /etc/netplan/* /var/lib/dgxspark-fabric
cp $base/bin/* /usr/local/sbin/
number=0
for name in enP7s7 enp1s0f0np0 enP2p1s0f0np0 enp1s0f1np1 enP2p1s0f1np1; do
    number=$((number + 1))
    ip link add $name type veth peer name peer$number
    ip link set peer$number mtu 9000 up
    ip link set $name up
done
ip addr add $2/24 dev enP7s7
touch $base/ready
exec sleep infinity
"""
NETPLAN = """\
#!/bin/sh
[ "$1" = apply ] || exec /usr/sbin/netplan "$@"
/usr/sbin/netplan generate || exit 78
/usr/sbin/netplan get > /run/configured || exit 78
[ ! -e /run/slow ] || sleep 1
{python} {renderer} /run/configured
[ ! -e /run/breaks-management ] || ip addr flush dev enP7s7
"""
RENDERER = """\
import subprocess, sys
sys.path.insert(0, {collections!r})
from ansible_collections.dgxspark.fabric.plugins.module_utils import netplan_yaml
tree = netplan_yaml.parse(open(sys.argv[1], encoding="utf-8").read())
for name, settings in (tree.get("ethernets") or {{}}).items():
    if subprocess.run(["ip", "link", "show", name], capture_output=True).returncode:
        continue
    subprocess.run(["ip", "-4", "addr", "flush", "dev", name], check=True)
    subprocess.run(["ip", "link", "set", name, "up", "mtu", str(settings.get("mtu") or 1500)], check=True)
    for address in settings.get("addresses") or []:
        subprocess.run(["ip", "addr", "add", str(address), "dev", name], check=True)
"""
SYSTEMD_RUN = """\
#!/bin/sh
later=
while [ $# -gt 0 ]; do
    case $1 in
        --on-active=*) later=${1#--on-active=}; later=${later%s} ;;
        --unit=*) unit=${1#--unit=} ;;
        --*) ;;
        *) break ;;
    esac
    shift
done
if [ -n "$later" ]; then
    echo "$later $*" > /run/timer-$unit
else
    setsid "$@" >/dev/null 2>&1 </dev/null &
fi
"""
SYSTEMCTL = """\
#!/bin/sh
for word; do case $word in dgxspark-*.timer) rm -f /run/timer-${word%.timer} ;; esac; done
"""


def usable() -> str | None:
    """Return why such a node cannot be made here; ``None`` when it can."""
    if os.geteuid() != 0:
        return "needs root"
    if not COLLECTIONS.is_dir():
        return "runs from a checkout only"
    for program in ("netplan", "unshare", "nsenter", "ip"):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
            return f"{program} is not installed: tests/setup tools installs netplan.io"
    script = "mount -t tmpfs t /mnt && mkdir /mnt/l /mnt/u /mnt/w && mount -t overlay o -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w /mnt/l && " \
             "mount -t sysfs s /sys && ip link add v0 type veth peer name v1"
    done = subprocess.run(["unshare", "-mn", "sh", "-c", script], capture_output=True, text=True, check=False)
    return f"no namespaces with overlays and veth here: {done.stderr.strip()[-100:]}" if done.returncode else None


class NamespaceNode:
    """One node; ``close`` ends it and everything that runs in it."""

    def __init__(self, management: str = MANAGEMENT[1]) -> None:
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="node-", dir="/dev/shm"))
        self.environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS), "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
        (self.base / "bin").mkdir()
        renderer = self.base / "renderer.py"
        renderer.write_text(RENDERER.format(collections=str(COLLECTIONS)), encoding="utf-8")
        for name, text in {"netplan": NETPLAN.format(python=sys.executable, renderer=renderer), "systemd-run": SYSTEMD_RUN, "systemctl": SYSTEMCTL,
                           "nmcli": "#!/bin/sh\n"}.items():
            (self.base / "bin" / name).write_text(text, encoding="utf-8")
            (self.base / "bin" / name).chmod(0o755)
        (self.base / "setup").write_text(SETUP, encoding="utf-8")
        self.holder = subprocess.Popen(["unshare", "-mn", "--pid", "--fork", "--kill-child", "sh", str(self.base / "setup"), str(self.base), management],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not (self.base / "ready").exists():
            if self.holder.poll() is not None:
                raise RuntimeError(f"the node cannot be made: {self.holder.stderr.read() if self.holder.stderr else ''}")
        children = pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text(encoding="ascii").split()
        self.enter = ["nsenter", "-t", children[0], "-m", "-n"]

    def close(self) -> None:
        """End the node."""
        self.holder.send_signal(signal.SIGKILL)
        self.holder.wait()
        shutil.rmtree(self.base, ignore_errors=True)

    def shell(self) -> pathlib.Path:
        """Return a program that is a shell on the node, for Ansible's local connection."""
        path = self.base / "shell"
        path.write_text(f"#!/bin/sh\nexec {' '.join(self.enter)} /bin/sh \"$@\"\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def sh(self, command: str, check: bool = True) -> str:
        """Run a shell command on the node and return its standard output."""
        return subprocess.run([*self.enter, "sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=check).stdout

    def put(self, path: str, text: str, mode: int = 0o600) -> None:
        """Write a file on the node."""
        subprocess.run([*self.enter, "sh", "-c", f"mkdir -p $(dirname '{path}') && cat > '{path}' && chmod {mode:o} '{path}'"], input=text, text=True,
                       check=True)

    def start(self, name: str, **arguments: t.Any) -> subprocess.Popen[str]:
        """Start a module."""
        check = arguments.pop("check", False)
        file = self.base / "arguments.json"
        file.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check, "_ansible_diff": True,
                                                            "_ansible_keep_remote_files": False}}),
                        encoding="utf-8")
        return subprocess.Popen([*self.enter, sys.executable, str(MODULES / f"{name}.py"), str(file)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment, start_new_session=True)

    def module(self, name: str, **arguments: t.Any) -> dict[str, t.Any]:
        """Run a module and return what it returned."""
        out, err = self.start(name, **arguments).communicate(timeout=120)
        try:
            return json.loads(out)
        except ValueError:
            raise AssertionError(f"{name} printed no result:\n{out}\n{err}") from None

    def files(self) -> str:
        """Return names, modes, owners and digests of everything that configures networks."""
        return self.sh("cd /etc && find netplan sysctl.d NetworkManager systemd/network -type f -printf '%p %m %u %g\\n' -exec sha256sum {} + | sort")

    def live(self) -> dict[str, t.Any]:
        """Return MTU, addresses and ARP settings of the fabric interfaces, and the management addresses."""
        found: dict[str, t.Any] = {}
        for link in json.loads(self.sh("ip -j -4 addr show")):
            name = link["ifname"].partition("@")[0]
            if name in INTERFACES or name == MANAGEMENT[0]:
                arp = self.sh(f"cat /proc/sys/net/ipv4/conf/{name}/arp_ignore /proc/sys/net/ipv4/conf/{name}/arp_announce").split()
                found[name] = (link["mtu"], sorted(f"{entry['local']}/{entry['prefixlen']}" for entry in link["addr_info"]), arp)
        return found
