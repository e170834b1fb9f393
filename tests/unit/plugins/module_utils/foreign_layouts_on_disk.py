# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The known layouts of DGX Spark fabrics as files: what people have on disk before this collection comes. Written for tests."""

from __future__ import annotations

MANAGEMENT = """\
# installer
network:
  version: 2
  ethernets:
    enP7s7:
      addresses: [10.77.0.11/24]
      routes: [{to: default, via: 10.77.0.1}]
"""
DESKTOP = "network:\n  version: 2\n  renderer: NetworkManager\n"


def static(entries: dict[str, str], more: str = "", top: str = "") -> str:
    """Return a file with the given addresses and further keys at each interface."""
    text = f"network:\n  version: 2\n{top}  ethernets:\n"
    for name, address in entries.items():
        keys = "".join(f"      {key}\n" for key in more.split("; ") if key)
        text += f"    {name}:\n{keys}" + (f"      addresses: [{address}]\n" if address else "" if keys else "      {}\n")
    return text


A, B, A0, B0 = "enp1s0f1np1", "enP2p1s0f1np1", "enp1s0f0np0", "enP2p1s0f0np0"
PROFILE = """\
[connection]
id={name}
uuid={uuid}
type={kind}
interface-name={interface}
autoconnect-priority={priority}
{more}
[ipv4]
method={method}
{ipv4}
"""


def profile(name: str, interface: str, ipv4: str = "", method: str = "manual", kind: str = "ethernet", priority: int = 0, more: str = "",
            uuid: str = "") -> str:
    """Return a NetworkManager keyfile."""
    return PROFILE.format(name=name, interface=interface, ipv4=ipv4, method=method, kind=kind, priority=priority, more=more, uuid=uuid or f"uuid-{name}")


CX7 = "etc/netplan/40-cx7.yaml"
NM = "etc/NetworkManager/system-connections/"
TIED_OFF = "dhcp4: no; dhcp6: no; link-local: []; mtu: 9000"

# name: (identifier of the layout, word of its name, files)
LAYOUTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "sparkrun": ("sparkrun", "sparkrun", {CX7: static({A: "192.168.11.21/24", B: "192.168.12.21/24"}, TIED_OFF)}),
    "sparkrun-old": ("sparkrun-old", "sparkrun", {CX7: static({A: "192.168.11.21/24", B: "192.168.12.21/24"},
                                                              "dhcp4: no; dhcp6: no; link-local: [ ipv4 ]; mtu: 9000")}),
    "sparknet": ("sparknet", "sparknet", {"etc/netplan/60-sparknet.yaml": static(
        {A: "10.12.1.1/24", B: "10.12.2.1/24"}, "renderer: NetworkManager; dhcp4: false; dhcp6: false; accept-ra: false; link-local: []; optional: true; "
        "mtu: 9000; networkmanager: {name: path}")}),
    "technical-depth": ("technical-depth", "technical-depth", {"etc/netplan/60-cx7.yaml": static(
        {A: "192.168.100.11/24", B: "192.168.101.11/24"}, "dhcp4: false; dhcp6: false; link-local: []; optional: true; mtu: 9000", "  renderer: networkd\n")}),
    "sparkring-netplan": ("sparkring-netplan", "sparkring", {"etc/netplan/40-sparkring-fabric.yaml": static(
        {A: "198.18.0.10/24"}, "renderer: NetworkManager; dhcp4: false; dhcp6: false; optional: true; mtu: 9000")}),
    "sparkring": ("sparkring", "sparkring", {NM + "ring-a.nmconnection": profile("ring-a", A, "address1=198.18.0.10/24", priority=100),
                                             NM + "ring-b.nmconnection": profile("ring-b", B, "address1=198.18.1.10/24", priority=100)}),
    "guardkit": ("guardkit", "guardkit", {"etc/netplan/60-qsfp.yaml": f"""\
network:
  version: 2
  ethernets:
    {A}:
      addresses: [169.254.90.11/16]
      mtu: 9000
    {B}:
      dhcp4: false
      link-local: [ipv6]
      mtu: 9000
"""}),
    "one-rail": ("one-rail", "jnardiello", {"etc/netplan/50-fabric.yaml": f"""\
network:
  version: 2
  renderer: networkd
  ethernets:
    {A}: {{addresses: [10.10.1.1/24], mtu: 9000}}
    {B}: {{mtu: 9000}}
"""}),
    "runtime": ("runtime", "runtime", {}),
    "bond": ("bond", "bond", {"etc/netplan/50-bond.yaml": f"""\
network:
  version: 2
  ethernets:
    {A}: {{mtu: 9000}}
    {B}: {{mtu: 9000}}
  bonds:
    bond0:
      interfaces: [{A}, {B}]
      addresses: [198.51.100.1/30]
      mtu: 9000
      parameters: {{mode: balance-xor}}
"""}),
    "bond-nmcli": ("bond", "bond", {
        NM + "bond0.nmconnection": profile("bond0", "bond0", "address1=198.51.100.1/30", kind="bond"),
        NM + "a.nmconnection": profile("a", A, method="", more="master=bond0\nslave-type=bond"),
        NM + "b.nmconnection": profile("b", B, method="", more="master=uuid-bond0\nslave-type=bond")}),
    "colonel-otto": ("colonel-otto", "colonel-otto", {NM + "fabric-a.nmconnection": profile(
        "fabric-a", A, "address1=10.50.1.1/24\nroute1=192.168.200.2/32,10.50.1.2")}),
    "eugr-guide": ("eugr-guide", "eugr", {"etc/netplan/41-cx7.yaml": static({A: "192.168.177.21/24", B: "192.168.178.21/24"}, TIED_OFF)}),
    "spark-pulse": ("networkmanager", "spark-pulse", {NM + "cx7-a.nmconnection": profile("cx7-a", A, "address1=192.168.177.21/24")}),
    "eugr-setup-cluster": ("eugr-setup-cluster", "setup-cluster", {"etc/netplan/98-spark-vllm-docker.yaml": static(
        {A: "10.20.0.11/24", B: "10.20.1.11/24"}, TIED_OFF)}),
    "nvidia-sync": ("nvidia-sync", "NVIDIA Sync", {"etc/netplan/99-nvidia-sync-cluster.yaml": static(
        {A: "10.100.32.1/24", B: "10.100.33.1/24"}, "dhcp4: false; mtu: 9000", "  renderer: NetworkManager\n"),
        "etc/netplan/01-network-manager-all.yaml": DESKTOP}),
    "nvidia-sync-temporary": ("nvidia-sync", "NVIDIA Sync", {"etc/netplan/netplan-7f3a.yaml": static({A: "10.100.32.1/24", B: "10.100.33.1/24"},
                                                                                                     "dhcp4: false")}),
    "networkmanager-mirror": ("networkmanager-mirror", "mirror", {"etc/netplan/90-NM-11111111-2222-3333-4444-555555555555.yaml": f"""\
network:
  version: 2
  ethernets:
    {A}:
      renderer: NetworkManager
      match: {{}}
      dhcp4: true
      dhcp6: true
      networkmanager:
        uuid: "11111111-2222-3333-4444-555555555555"
        name: "Wired connection 2"
        passthrough:
          connection.type: "ethernet"
"""}),
    "nvidia-link-local": ("nvidia-link-local", "NVIDIA", {CX7: static({A0: "", A: ""}, "link-local: [ ipv4 ]")}),
    "nvidia-switch-link-local": ("nvidia-switch-link-local", "NVIDIA", {CX7: static({A: "", B: ""}, "link-local: [ ipv4 ]")}),
    "nvidia-static-twins": ("nvidia-static-twins", "NVIDIA", {CX7: static(
        {A0: "192.168.100.10/24", A: "192.168.200.12/24", B0: "192.168.100.14/24", B: "192.168.200.16/24"}, "dhcp4: no")}),
    "nvidia-playbook": ("nvidia-playbook", "NVIDIA", {CX7: static({A: "192.168.100.10/24", B: "192.168.101.10/24"}, "dhcp4: no")}),
    "nvidia-performance-guide": ("nvidia-performance-guide", "NVIDIA", {CX7: static(
        {A: "192.168.200.12/24", B: "192.168.201.12/24"}, "dhcp4: no", "  renderer: NetworkManager\n")}),
    "nvidia-helper": ("nvidia-helper", "NVIDIA", {CX7: static({A0: "", B0: "", A: "192.168.0.1/24", B: "192.168.0.2/24"}, "dhcp4: false")}),
    "nvidia-switch-static": ("nvidia-switch-static", "NVIDIA", {CX7: static({A: "192.168.100.10/24", B: "192.168.100.11/24"}, "dhcp4: no")}),
    "nvidia-switch-dhcp": ("nvidia-switch-dhcp", "DHCP", {CX7: static({A: "", B: ""}, "dhcp4: true")}),
    "rejected": ("hand-made", "hand-made", {"etc/netplan/55-mine.yaml": f"""\
network:
  version: 2
  ethernets:
    {A}:
      mtu: 9000b
"""}),
    "hand-made": ("hand-made", "hand-made", {"etc/netplan/55-mine.yaml": f"""\
# my network
network:
  version: 2
  ethernets:
    # the QSFP port
    {A}:
      addresses:
        - 172.20.1.1/24   # rail a
      mtu: 4200
    # the other card, leave it alone
    enx001122:
      dhcp4: true   # from the router
      optional: true
"""}),
    "flow-style": ("hand-made", "hand-made", {"etc/netplan/55-mine.yaml":
                                              f"network: {{version: 2, ethernets: {{{A}: {{addresses: [172.20.1.1/24]}}, enx001122: {{dhcp4: true}}}}}}\n"}),
    "match": ("hand-made", "hand-made", {"etc/netplan/55-mine.yaml": f"""\
network:
  version: 2
  ethernets:
    fabric:
      match: {{name: "{A}"}}
      addresses: [172.20.1.1/24]
"""}),
    "networkd-file": ("networkd-file", "systemd-networkd", {"etc/systemd/network/05-mine.network": f"[Match]\nName={A}\n[Network]\nAddress=172.20.1.1/24\n"}),
}
