# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What listings of links, devices, PCIe and the kernel log show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ansible_collections.dgxspark.fabric.plugins.module_utils import cabling_list, kernel_log, nic_listings, rdma_listings
from ansible_collections.dgxspark.fabric.plugins.module_utils.rdma_listings import RdmaLink
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import Explanation
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_context import Context, port_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_source import Section

LEAST_WIDTH = 4


def rdma_links(section: Section) -> list[RdmaLink]:
    """Return the RDMA devices that a section lists, from text and JSON."""
    found = rdma_listings.ibdev2netdev(section.lines)
    for kind, document in section.documents:
        if kind == "ibdev2netdev":
            found.extend(rdma_listings.rdma_link_json(document))
    if not found and "ibv_devinfo" in section.kinds:
        found = [
            RdmaLink(info.device, "", info.state == "ACTIVE", info.state) for info in rdma_listings.ibv_devinfo(section.lines) if info.device and info.state
        ]
    return found


def explain(section: Section, context: Context, told: Explanation) -> None:
    """Add what the listings of a section show."""
    devices(section, context, told)
    speeds(section, context, told)
    if "lspci" in section.kinds:
        pcie(section, told)
    if "pci_functions" in section.kinds:
        receptacles(section, told)
    if "kernel_log" in section.kinds:
        kernel(section, told)
    if "cabling" in section.kinds:
        cabling(section, context, told)


def devices(section: Section, context: Context, told: Explanation) -> None:
    """Judge which RDMA devices are up: both twins of a port, or neither."""
    by_port: dict[int, list[RdmaLink]] = {}
    for link in rdma_links(section):
        port = port_of(link.device)
        if port is not None:
            by_port.setdefault(port, []).append(link)
    if not by_port:
        return
    evidence = {"file": section.file}
    up_ports = []
    for port, links in sorted(by_port.items()):
        up = [link.device for link in links if link.up]
        down = [link.device for link in links if not link.up]
        if up and down:
            told.add("link.one_twin", section.label, scope="node", nodes=[section.host], port=port, up=up, down=down, evidence=evidence)
        elif up:
            up_ports.append(port)
    every = [link.device for links in by_port.values() for link in links]
    if not any(link.up for links in by_port.values() for link in links):
        told.add("link.none_up", section.label, scope="node", nodes=[section.host], devices=every, evidence=evidence)
    if not up_ports:
        return
    note = ""
    extra = [port for port in up_ports if context.ports and port not in context.ports]
    absent = [port for port in context.ports if port not in up_ports]
    if extra:
        note = f" Port {', '.join(map(str, extra))} is up and not declared: used for something else, it stays out of the fabric."
    elif len(up_ports) > 1 and not context.topology:
        note = " Four interfaces up are no proof of a mesh: a second cable may go to the same node, or elsewhere."
    told.add(
        "link.ports_up",
        section.label,
        scope="node",
        nodes=[section.host],
        ports=up_ports,
        note=note,
        devices=[link.device for port in up_ports for link in by_port[port]],
        actual=up_ports,
        expected=list(context.ports) or None,
        evidence=evidence,
    )
    for port in absent:
        if port in by_port and not any(link.up for link in by_port[port]):
            told.add(
                "link.none_up",
                f"{section.label} port {port}",
                scope="node",
                nodes=[section.host],
                devices=[link.device for link in by_port[port]],
                evidence=evidence,
            )


def speeds(section: Section, context: Context, told: Explanation) -> None:
    """Judge link and speed; no link is no link, and no error about a number."""
    found = nic_listings.ethtool(section.lines) if "ethtool" in section.kinds else []
    for kind, document in section.documents:
        if kind == "ethtool":
            found.extend(nic_listings.ethtool_json(document))
    for settings in found:
        if settings.name and port_of(settings.name) is None and settings.name.startswith(("enP7s7", "wl", "lo", "docker")):
            continue
        subject = settings.name or section.label
        evidence = {"file": section.file}
        wanted = round(context.link_gbps * 1000)
        if settings.link is False or (settings.link is None and settings.speed_mbps is None):
            why = f" ({settings.why})" if settings.why else ""
            told.add("link.carrier", subject, scope="interface", nodes=[section.host], why=why, actual=False, expected=True, evidence=evidence)
        elif settings.speed_mbps is not None:
            told.add(
                "link.speed",
                subject,
                status="fail" if settings.speed_mbps < wanted else "pass",
                scope="interface",
                nodes=[section.host],
                actual=settings.speed_mbps,
                expected=wanted,
                unit="Mb/s",
                evidence=evidence,
            )
        elif settings.link:
            told.add("link.carrier", subject, status="pass", scope="interface", nodes=[section.host], evidence=evidence)


def pcie(section: Section, told: Explanation) -> None:
    """Judge the width of PCIe links that could be wider, or that are narrower than a rail's four lanes."""
    for link in nic_listings.lspci(section.lines):
        most = link.max_width or LEAST_WIDTH
        width = link.width or 0
        if not width:
            continue
        told.add(
            "pcie.width",
            link.address or section.label,
            status="fail" if width < most else "pass",
            scope="interface",
            nodes=[section.host],
            width=width,
            max_width=most,
            speed=f"{link.speed_gts:g}" if link.speed_gts else "unknown",
            max_speed=f"{link.max_speed_gts:g}" if link.max_speed_gts else "unknown",
            actual=width,
            expected=most,
            unit="lanes",
            evidence={"file": section.file},
        )


def receptacles(section: Section, told: Explanation) -> None:
    """Tell which functions are one plug: the same function number in PCI domains 0000 and 0002."""
    by_port: dict[str, list[str]] = {}
    for netdev, address in nic_listings.pci_functions(section.lines).items():
        by_port.setdefault(address.rpartition(".")[2], []).append(f"{netdev} ({address})")
    pairs = "; ".join(
        f"{' and '.join(members)} {'are one port' if len(members) > 1 else 'is alone'}, number {port}" for port, members in sorted(by_port.items())
    )
    told.add("link.receptacles", section.label, scope="node", nodes=[section.host], pairs=pairs, evidence={"file": section.file})


def kernel(section: Section, told: Explanation) -> None:
    """Judge the kernel log, host by host."""
    events = kernel_log.events(section.lines)
    for host in dict.fromkeys(event.host for event in events):
        _kernel_of_host(section, host or section.label, [event for event in events if event.host == host], told)


def _kernel_of_host(section: Section, host: str, events: list[kernel_log.KernelEvent], told: Explanation) -> None:
    by_name: dict[str, list[kernel_log.KernelEvent]] = {}
    for event in events:
        by_name.setdefault(event.name, []).append(event)
    firmware = sorted({event.value for event in by_name.get("firmware", [])})
    common = {"scope": "node", "nodes": [host]}
    last: dict[str, kernel_log.KernelEvent] = {}
    for event in events:
        if event.name in ("plugged", "unplugged"):
            last[event.function] = event
    away = [event.function for event in last.values() if event.name == "unplugged"]
    if away or "hotplug_removed" in by_name:
        told.add(
            "link.no_cable",
            host,
            functions=away or "the hot-plug driver",
            hotplug="; the hot-plug driver took the chip off PCIe" if "hotplug_removed" in by_name else "",
            firmware=f"; firmware {', '.join(firmware)} was read before" if firmware else "",
            evidence=_lines(section, by_name, "unplugged", "hotplug_removed"),
            **common,
        )
    elif firmware:
        told.add("node.firmware", host, value=firmware, actual=firmware, **common)
    for name, cause in (("health", "node.nic_health"), ("command_timeout", "node.nic_health"), ("module_error", "link.module"), ("too_hot", "link.module")):
        for event in by_name.get(name, [])[:1]:
            told.add(cause, host, function=event.function, value=event.value, evidence=_lines(section, by_name, name), **common)
    for name, status in (("aer_fatal", "fail"), ("aer_nonfatal", "fail"), ("aer_corrected", "warn")):
        for function, count in Counter(event.function for event in by_name.get(name, [])).items():
            first = next(event for event in by_name[name] if event.function == function)
            told.add("pcie.aer", host, status=status, function=function, count=count, value=first.value, evidence=_lines(section, by_name, name), **common)
    for event in by_name.get("out_of_memory", [])[:1]:
        told.add("node.out_of_memory", host, value=event.value, evidence=_lines(section, by_name, "out_of_memory"), **common)
    if not away:
        for interface, count in Counter(event.value for event in by_name.get("link_down", [])).items():
            told.add("link.flapped", host, interface=interface, count=count, evidence=_lines(section, by_name, "link_down"), **common)


def _lines(section: Section, by_name: dict[str, list[kernel_log.KernelEvent]], *names: str) -> dict[str, object]:
    return {"file": section.file, "lines": [event.line for name in names for event in by_name.get(name, [])][:8]}


def cabling(section: Section, context: Context, told: Explanation) -> None:
    """Judge a list of cables: in a mesh each joins port 0 to port 1; two cables between one pair are legal and add nothing."""
    cables = cabling_list.cables(section.lines)
    nodes = list(dict.fromkeys(node for cable in cables for node in (cable.node_a, cable.node_b)))
    pairs: dict[frozenset[str], list[cabling_list.Cable]] = {}
    for cable in cables:
        pairs.setdefault(frozenset((cable.node_a, cable.node_b)), []).append(cable)
    evidence = {"file": section.file}
    for pair in pairs.values():
        if len(pair) > 1:
            told.add(
                "link.two_cables",
                ", ".join(sorted({pair[0].node_a, pair[0].node_b})),
                nodes=nodes,
                cables=_names(pair),
                networks={2: "two", 4: "four"}.get(2 * len(pair), str(2 * len(pair))),
                evidence=evidence,
            )
    equal = [cable for cable in cables if cable.port_a == cable.port_b]
    mesh = context.topology == "mesh" or (len(nodes) == 3 and len(pairs) == 3 and context.topology in ("", "ring"))
    if mesh and equal:
        wanted = "; ".join(_names(_mesh(nodes)))
        told.add(
            "link.cabling",
            ", ".join(nodes),
            scope="cluster",
            nodes=nodes,
            count=len(equal),
            total=len(cables),
            cables=_names(equal),
            fix_cables=wanted,
            actual=_names(cables),
            expected=_names(_mesh(nodes)),
            evidence=evidence,
        )
    elif mesh:
        told.add("link.cabling", ", ".join(nodes), status="pass", nodes=nodes, total=len(cables), cables=_names(cables), evidence=evidence)
    elif all(len(pair) == 1 for pair in pairs.values()):
        note = f" {', '.join(_names(equal))} join equal ports; rings of four and more run like that." if equal and len(nodes) > 3 else ""
        told.add("link.counted_cables", ", ".join(nodes[:8]), nodes=nodes, total=len(cables), cables=_names(cables), note=note, evidence=evidence)


def _mesh(nodes: list[str]) -> list[cabling_list.Cable]:
    return [cabling_list.Cable(node, 0, nodes[(place + 1) % len(nodes)], 1) for place, node in enumerate(nodes)]


def _names(cables: Iterable[cabling_list.Cable]) -> list[str]:
    return [cable.name for cable in cables]
