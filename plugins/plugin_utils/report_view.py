# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the pages of a report show, as plain data: the templates lay it out and compute nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.bottleneck import bottleneck_rows
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cluster_picture import node_pictures, pictures
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.comparison import AGAINST, node_versions, way_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import BROKEN, LAYERS, STATUSES, TROUBLES
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rail_figures import SIGNS, WORDS, rail_rows
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_charts import size_curves, stream_ladder
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_names import host_file
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_time import duration_text, moment_text, seconds_between
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import counted, number_text, value_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_table import COLUMNS, HEADS, cells, remarks

#: With more healthy cables than this, they are folded away below those that need a look.
HEALTHY_CABLES_SHOWN = 12

#: So many lines of a comparison are shown; report.json has them all.
CHANGES_SHOWN = 40


def common(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every page of a report shows."""
    verdict = report["verdict"]
    return {
        "cluster": report["cluster"],
        "run_id": report["run_id"],
        "started": moment_text(report["started"]),
        "started_exact": report["started"],
        "duration": duration_text(seconds_between(report["started"], report["finished"])),
        "mode": report["mode"],
        "check": report["mode"] == "check",
        "collection_version": report["collection_version"],
        "verdict": verdict["status"],
        "verdict_message": verdict["message"],
        "signs": SIGNS,
        "words": WORDS,
        "redacted": bool(report.get("redacted")),
    }


class Pages:
    """A report, asked page by page. What pages share is worked out once."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        self.report = report
        self.plan = report["plan"]
        self.common = common(report)
        self.rows = rail_rows(report)
        self.statuses = {node: self.node_status(node) for node in self.plan["nodes"]}
        self.ends = {cable["name"]: {end["node"] for end in (cable["a"], cable["b"]) if end} for cable in self.plan["cables"]}
        self.links = {node: host_file(node, "html") for node in self.plan["nodes"]}
        self.by_node: dict[str, list[Mapping[str, Any]]] = {node: [] for node in self.plan["nodes"]}
        for finding in report["findings"]:
            for node in finding["nodes"]:
                if node in self.by_node:
                    self.by_node[node].append(finding)

    def node_status(self, node: str) -> str:
        """Return the worst status of what is put down to a node itself (not to a cable that it is an end of)."""
        own = [one["status"] for one in self.report["findings"] if one["nodes"] == [node]]
        return "skip" if node in self.report["not_tested"] else min(own, key=STATUSES.index, default="skip")

    def cluster_page(self) -> dict[str, Any]:
        """Return what the page of the whole cluster shows."""
        report, plan = self.report, self.plan
        troubled = [row for row in self.rows if row["status"] != "pass"]
        healthy = [row for row in self.rows if row["status"] == "pass"]
        fold = len(healthy) > HEALTHY_CABLES_SHOWN
        return {
            **self.common,
            "title": f"{report['cluster']}: {plan['topology']} of {len(plan['nodes'])} nodes",
            "figures": self.key_figures(),
            "findings": [finding_view(one) for one in report["findings"] if one["status"] in TROUBLES],
            "checks": len(report["findings"]),
            "drift": [drift_view(entry) for entry in report["drift"]],
            "comparisons": [comparison_view(entry) for entry in report.get("comparison") or []],
            "bottleneck": bottleneck_rows(report),
            "scenarios": scenario_view(report.get("scenarios") or []),
            "pictures": pictures(plan, self.rows, self.statuses, self.links),
            "picture_title": self.picture_title(),
            "cables_shown": troubled if fold else self.rows,
            "cables_folded": healthy if fold else [],
            "folded_text": folded_text(healthy),
            "bar": self.bar_legend(),
            "ladder": stream_ladder(report),
            "curves": size_curves(report),
            "nodes": [self.node_entry(node) for node in plan["nodes"]],
            "versions": self.versions(),
            "environments": self.environments(),
            "notes": [{**note, "subject": names_text(note["subject"].split(", "))} for note in plan.get("notes") or []],
            "formula": plan["expected"].get("formula") or "",
            "layers": layer_counts(report["findings"]),
            "skipped": skip_reasons(report["findings"]),
            "commands": self.commands(),
            "settings": [(name, value_text(value)) for name, value in (plan.get("settings") or {}).items() if value not in (None, {}, [])],
            "rules": [str(rule.get("id")) for rule in plan.get("rules") or []],
            "not_tested": report["not_tested"],
            "statuses": STATUSES,
        }

    def host_page(self, host: str) -> dict[str, Any]:
        """Return what the page of one host shows."""
        report, planned = self.report, self.plan["nodes"][host]
        facts = report["nodes"].get(host) or {}
        cables = {interface["cable"] for interface in planned["interfaces"].values()}
        rows = [row for row in self.rows if row["name"] in cables]
        mine = self.by_node[host]
        return {
            **self.common,
            "title": f"{host} of {report['cluster']}",
            "host": host,
            "number": planned.get("number"),
            "status": "skip" if host in report["not_tested"] else min((one["status"] for one in mine), key=STATUSES.index, default="skip"),
            "management": (facts.get("management") or {}).get("address") or planned["management"]["address"],
            "management_interface": (facts.get("management") or {}).get("interface"),
            "unreachable": report["unreachable"].get(host),
            "tested": host not in report["not_tested"],
            "findings": [finding_view(one) for one in mine if one["status"] in TROUBLES],
            "checks": len(mine),
            "drift": [drift_view(entry) for entry in report["drift"] if entry.get("host") == host],
            "pictures": node_pictures(self.plan, host, rows, self.statuses, self.links),
            "picture_title": f"{host} with its {counted(len(rows), 'cable')}",
            "cables_shown": rows,
            "cables_folded": [],
            "folded_text": "",
            "bar": self.bar_legend(),
            "ladder": stream_ladder(report, host),
            "interfaces": [interface_view(planned["interfaces"][name], facts) for name in planned["interfaces"]],
            "versions": list(node_versions(facts, planned).items()),
            "environments": [{"nodes": host, "open": True, "lines": environment_lines(planned)}],
            "tests": test_views(report, host),
            "layers": layer_counts(mine),
            "skipped": skip_reasons(mine),
            "statuses": STATUSES,
        }

    def key_figures(self) -> list[dict[str, Any]]:
        """Return the figures at the head of the page."""
        rails = [rail for row in self.rows for rail in row["rails"]]
        passed = sum(rail["status"] in ("pass", "warn") for rail in rails)
        counts = self.report["verdict"]["counts"]
        figures = [
            {"name": "nodes", "value": str(len(self.plan["nodes"])), "more": f"{counted(len(self.rows), 'cable')}, {self.plan['topology']}"},
            {"name": "rails that pass", "value": f"{passed}", "of": f"of {len(rails)}", "more": "two rails share a cable"},
        ]
        percents = [(rail["percent"], row["name"], rail["rail"]) for row in self.rows for rail in row["rails"] if rail["percent"] is not None]
        if percents:
            percent, cable, rail_name = min(percents, key=lambda entry: entry[0])
            figures.append({"name": "slowest figure", "value": f"{percent:.0f}", "of": "% of expected", "more": f"{cable}, rail {rail_name}"})
        failed = counts["fail"] + counts["unknown"]
        figures.append({"name": "failed checks", "value": str(failed), "more": f"{counted(counts['warn'], 'warning')}, {counts['pass']} passed"})
        if self.report["drift"] or self.common["check"]:
            figures.append({"name": "drifted settings", "value": str(len(self.report["drift"])), "more": "live against plan"})
        return figures

    def picture_title(self) -> str:
        """Describe the picture in words."""
        broken = [row["name"] for row in self.rows if row["status"] in ("fail", "unknown")]
        told = f"{counted(len(broken), 'cable')} failing: {', '.join(broken[:6])}" if broken else "no cable fails"
        return f"{self.plan['topology']} of {len(self.plan['nodes'])} nodes with {counted(len(self.rows), 'cable')}; {told}"

    def bar_legend(self) -> dict[str, Any]:
        """Say what the bars are drawn against."""
        ceilings = self.plan["expected"].get("ceiling_gbps") or {}
        bars = [cell["bar"] for row in self.rows for rail in row["rails"] for cell in rail["ways"].values() if cell]
        return {
            "any": bool(bars),
            "ceiling": any(one["ceiling"] is not None for one in bars),
            "rates": ", ".join(f"{name.replace('_', ' ')} {number_text(rate)}" for name, rate in ceilings.items()),
        }

    def node_entry(self, node: str) -> dict[str, Any]:
        """Return one node as the list of nodes shows it."""
        rails = [rail["status"] for row in self.rows for rail in row["rails"] if node in self.ends[row["name"]]]
        return {
            "name": node,
            "link": self.links[node],
            "status": self.statuses[node],
            "rails": f"{sum(status in ('pass', 'warn') for status in rails)} of {len(rails)} rails pass",
            "rails_broken": any(status in BROKEN for status in rails),
            "lost": self.report["unreachable"].get(node),
        }

    def versions(self) -> list[dict[str, Any]]:
        """Return what runs on the nodes: each thing with its versions, and the nodes of each version where they differ."""
        by_thing: dict[str, dict[str, list[str]]] = {}
        seen = 0
        for node, facts in self.report["nodes"].items():
            if not facts:
                continue
            seen += 1
            for thing, version in node_versions(facts, self.plan["nodes"].get(node) or {}).items():
                by_thing.setdefault(thing, {}).setdefault(version, []).append(node)
        rows = [{"thing": "dgxspark.fabric", "version": self.report["collection_version"], "nodes": "controller", "differs": False}]
        for thing, found in by_thing.items():
            for version, nodes in found.items():
                everywhere = len(nodes) == seen
                rows.append({"thing": thing, "version": version, "nodes": "all nodes" if everywhere else names_text(nodes), "differs": len(found) > 1})
        return rows

    def environments(self) -> list[dict[str, Any]]:
        """Return the NCCL environments of the plan, nodes with the same one together."""
        groups: dict[tuple[Any, ...], list[str]] = {}
        for node, planned in self.plan["nodes"].items():
            groups.setdefault(tuple(map(tuple, environment_lines(planned))), []).append(node)
        everywhere = len(groups) == 1
        return [
            {"nodes": "all nodes" if everywhere else names_text(nodes), "open": place == 0, "lines": [list(one) for one in lines]}
            for place, (lines, nodes) in enumerate(groups.items())
            if lines
        ]

    def commands(self) -> list[dict[str, str]]:
        """Return how to repeat the run and how to render it again."""
        report = self.report
        tested = [node for node in self.plan["nodes"] if node not in report["not_tested"]]
        limit = f" --limit {shlex.quote(','.join(tested))}" if report["not_tested"] and tested else ""
        run = f"ansible-playbook -i INVENTORY playbooks/{'site.yml --check --diff' if self.common['check'] else 'validate.yml'}{limit}"
        place = shlex.quote(f"reports/{report['cluster']}/{report['run_id']}")
        return [
            {"what": "Measure again" if not self.common["check"] else "Compare again", "text": run},
            {"what": "Judge and render this run again", "text": f"ansible-playbook playbooks/report.yml -e report_from={place}"},
            {"what": "Compare it with another run", "text": f"ansible-playbook playbooks/report.yml -e report_from={place} -e report_against=RUN_ID"},
        ]


def scenario_view(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the table of scenarios, and what stands below it."""
    return {"heads": [HEADS[name] for name in COLUMNS], "rows": [cells(row) for row in rows], "remarks": remarks(rows)}


def finding_view(finding: Mapping[str, Any]) -> dict[str, Any]:
    """Return a finding as the table shows it."""
    kept = ("id", "status", "layer", "subject", "message", "cause", "fix")
    evidence = [(key, value_text(value)) for key, value in finding["evidence"].items() if value not in (None, "", [], {})]
    return {**{key: finding[key] for key in kept}, "evidence": [(key, text if len(text) <= 1200 else f"{text[:1200]}…") for key, text in evidence]}


def drift_view(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return a drifted setting as the table shows it."""
    return {key: value_text(entry.get(key)) if key in ("wanted", "live") else str(entry.get(key) or "") for key in ("host", "subject", "key", "wanted", "live")}


def comparison_view(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comparison as the page shows it."""
    lost: dict[str, list[str]] = {}
    for one in entry["regressions"]:
        if one["now_gbps"] is None:
            lost.setdefault(one["cable"], []).append(one["rail"])
    changes = [
        {
            "word": "lost",
            "status": "warn",
            "where": f"{cable}, rail {' and '.join(dict.fromkeys(rails))}",
            "way": f"{counted(len(rails), 'figure')}, none now",
            **dict.fromkeys(("before", "now", "change", "noise"), ""),
        }
        for cable, rails in lost.items()
    ]
    for kind, word in (("regressions", "slower"), ("improvements", "faster")):
        changes += [change_view(one, word) for one in entry[kind] if one["now_gbps"] is not None]
    lists = [
        ("New cables", entry["new_cables"]),
        ("Gone cables", entry["gone_cables"]),
        ("Newly broken checks", [f"{one['id']} on {one['subject']}" for one in entry["newly_broken"]]),
        ("Mended checks", [f"{one['id']} on {one['subject']}" for one in entry["mended"]]),
        ("Changed versions", [f"{one['node']} {one['what']}: {one['before'] or 'none'} → {one['now'] or 'none'}" for one in entry["versions"]]),
    ]
    return {
        "against": AGAINST.get(entry["against"], entry["against"]),
        "run_id": entry["run_id"],
        "started": moment_text(entry["started"]),
        "message": entry["message"].partition(": ")[2],
        "changes": changes[:CHANGES_SHOWN],
        "hidden": max(len(changes) - CHANGES_SHOWN, 0),
        "lists": [(name, values[:CHANGES_SHOWN], max(len(values) - CHANGES_SHOWN, 0)) for name, values in lists if values],
    }


def change_view(one: Mapping[str, Any], word: str) -> dict[str, str]:
    """Return a figure that changed as the page shows it."""
    return {
        "word": word,
        "status": "pass" if word == "faster" else "warn",
        "where": f"{one['cable']}, rail {one['rail']}",
        "way": way_text(one),
        "before": number_text(one["before_gbps"]),
        "now": number_text(one["now_gbps"]),
        "change": f"{one['change_percent']:+.1f} %",
        "noise": f"{one['noise_percent']:.0f} %, {noise_text(one)}",
    }


def noise_text(one: Mapping[str, Any]) -> str:
    """Say where the noise of a changed figure comes from."""
    seen = ((one["noise_runs"], "good run"), (one["noise_repeats"], "repeat"))
    return " and ".join(f"range of {counted(number, noun)}" for number, noun in seen if number) or "stated"


def interface_view(planned: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, str]:
    """Return an interface as the page of its host shows it: planned and live."""
    live = (facts.get("interfaces") or {}).get(planned["name"]) or {}
    device = (facts.get("rdma_devices") or {}).get(planned["rdma_device"]) or {}
    pcie = live.get("pcie") or {}
    speed = live.get("speed_mbps")
    return {
        "name": planned["name"],
        "place": f"port {planned['port']}, rail {planned['rail']}",
        "cable": planned["cable"],
        "address": ", ".join(live.get("addresses") or []) or (f"none (planned {planned['address']})" if planned["address"] else "none"),
        "link": "not seen" if not live else "up" if live.get("carrier") else "down",
        "speed": f"{speed / 1000:g} Gb/s" if isinstance(speed, int) and speed > 0 else "–",
        "mtu": str(live.get("mtu") or "–"),
        "pcie": f"x{pcie['width']}, {pcie['speed_gts']:g} GT/s" if pcie.get("width") and pcie.get("speed_gts") else "–",
        "rdma": f"{planned['rdma_device']}: {device.get('state') or 'not seen'}",
        "mac": str(live.get("mac") or "–"),
    }


def test_views(report: Mapping[str, Any], host: str) -> list[dict[str, Any]]:
    """Return the load tests that a host took part in, with the command lines of both ends."""
    views = []
    for cable in report["cables"]:
        for rail, row in cable["rails"].items():
            for one in row["measurements"]:
                if host not in (one["client"], one["server"]):
                    continue
                evidence = one["evidence"]
                views.append({
                    "status": one["status"],
                    "where": f"{cable['name']}, rail {rail}",
                    "way": way_text(one),
                    "gbps": "–" if one["gbps"] is None else number_text(one["gbps"]),
                    "expected": number_text(one["expected_gbps"]),
                    "message": one["message"],
                    "commands": [
                        (end, shlex.join(map(str, evidence[key])))
                        for end, key in ((one["server"], "server_command"), (one["client"], "command"))
                        if evidence.get(key)
                    ],
                })
    return views


def environment_lines(planned: Mapping[str, Any]) -> list[list[str]]:
    """Return the NCCL environment of a node: name, value, reason."""
    return [[str(one["name"]), str(one["value"]), str(one.get("reason") or "")] for one in planned.get("nccl_environment") or []]


def layer_counts(findings: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the number of checks by layer and status, lowest layer first."""
    counts: dict[str, dict[str, int]] = {}
    for one in findings:
        row = counts.setdefault(one["layer"], dict.fromkeys(STATUSES, 0))
        row[one["status"]] += 1
    return [{"layer": layer, "counts": counts[layer]} for layer in LAYERS if layer in counts]


def skip_reasons(findings: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return why checks were skipped, the most frequent reason first."""
    reasons: dict[str, int] = {}
    for one in findings:
        if one["status"] == "skip":
            reasons[one["message"]] = reasons.get(one["message"], 0) + 1
    return sorted(reasons.items(), key=lambda item: -item[1])[:CHANGES_SHOWN]


def folded_text(rows: list[Mapping[str, Any]]) -> str:
    """Tell many healthy cables in one line."""
    percents = [(rail["percent"], row["name"], rail["rail"]) for row in rows for rail in row["rails"] if rail["percent"] is not None]
    if not percents:
        return f"{counted(len(rows), 'cable')} pass"
    percent, cable, rail = min(percents, key=lambda entry: entry[0])
    return f"{counted(len(rows), 'cable')} pass; the slowest figure is {percent:.0f} % of expected, {cable} rail {rail}"


def names_text(names: list[str], most: int = 8) -> str:
    """Return names as a list, cut after some."""
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])} and {len(names) - most} more"
