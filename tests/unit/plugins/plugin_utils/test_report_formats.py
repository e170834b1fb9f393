# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report for programs: junit.xml against a schema, fabric.prom by Prometheus' own parser, and the budget of a large cluster."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from xml.etree import ElementTree
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils import format_junit, format_prometheus
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import make_report
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_names import host_file
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import CABLE, FAULTS, a_little_slow, check_run, cut, run_of, voided

UNIT = pathlib.Path(__file__).resolve().parents[2]
TIMES = {"started": "2026-11-30T22:15:00Z", "finished": "2026-11-30T22:16:30Z"}
DRIFT = {"host": "spark1", "subject": "enp1s0f0np0", "key": "mtu", "wanted": 9000, "live": 1500, "message": "MTU 1500, wanted 9000"}


def junit_of(report: dict[str, Any]) -> ElementTree.Element:
    """Return junit.xml of a report, checked against the schema."""
    text = format_junit.files(report)["junit.xml"]
    xmlschema = pytest.importorskip("xmlschema")
    xmlschema.XMLSchema(str(UNIT / "fixtures/junit.xsd")).validate(text)
    return ElementTree.fromstring(text)


def samples_of(report: dict[str, Any]) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return fabric.prom of a report as Prometheus reads it."""
    parser = pytest.importorskip("prometheus_client.parser")
    text = format_prometheus.files(report)["fabric.prom"]
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    series = set()
    for family in parser.text_string_to_metric_families(text):
        assert family.type == "gauge" and family.documentation
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in series, f"{key} stands there twice"
            series.add(key)
            found.setdefault(sample.name.removeprefix("dgxspark_fabric_"), []).append((dict(sample.labels), sample.value))
    assert text.endswith("\n")
    return found


@pytest.mark.parametrize("fault", [None, *FAULTS], ids=lambda fault: fault[0].__name__ if fault else "healthy")
def test_both_formats_are_well_formed_for_every_fault(fault: Any) -> None:
    data = run_of()
    if fault:
        fault[0](data)
    report = make_report(data, **TIMES)
    root = junit_of(report)
    assert len(root.findall(".//testcase")) == len(report["findings"])
    assert samples_of(report)["verdict"] == [({"cluster": "spark"}, report["verdict"]["status"] == "pass")]


def test_junit_has_one_case_a_check_and_counts_them() -> None:
    data = run_of()
    cut(data)
    report = make_report(data, **TIMES)
    root = junit_of(report)
    assert [suite.get("name") for suite in root] == ["node", "pcie", "link", "address", "path", "rdma", "tcp"]
    counts = report["verdict"]["counts"]
    assert sum(int(suite.get("failures")) for suite in root) == counts["fail"] == 1
    assert sum(int(suite.get("skipped")) for suite in root) == counts["skip"]
    failure = root.find(".//failure")
    assert failure is not None and failure.get("type") == "link.carrier"
    assert "cause: " in failure.text and "fix: " in failure.text


def test_junit_tells_unknown_as_error_and_warnings_as_text() -> None:
    data = run_of()
    voided(data)
    root = junit_of(make_report(data, **TIMES))
    assert [error.get("type") for error in root.iter("error")] == ["rdma.void"]
    data = run_of()
    a_little_slow(data)
    root = junit_of(make_report(data, **TIMES))
    assert root.find(".//failure") is None
    assert "warning: rdma.rail_bandwidth" in "".join(out.text or "" for out in root.iter("system-out"))


def test_junit_fails_when_the_run_fails() -> None:
    """Warnings count when fabric_fail_on says so; drift counts in check mode, unless fabric_drift_fails is off."""
    data = run_of("mesh", 3, fabric_fail_on="warn")
    a_little_slow(data)
    report = make_report(data, **TIMES)
    assert report["verdict"]["status"] == "fail"
    assert junit_of(report).find(".//failure") is not None
    data = check_run()
    data["drift"] = [DRIFT]
    report = make_report(data, **TIMES)
    assert [failure.get("message") for failure in junit_of(report).iter("failure")] == ["MTU 1500, wanted 9000"]
    data["plan"]["drift_fails"] = False
    report = make_report(data, **TIMES)
    assert report["verdict"]["status"] == "pass"
    assert junit_of(report).find(".//failure") is None


def test_characters_that_no_xml_may_hold_are_replaced() -> None:
    data = run_of()
    data["unreachable"]["spark2"] = "ssh: \x1b[31m<&>]]>\x00 \ud800 end\n\ttwo"
    data["nodes"]["spark2"] = None
    report = make_report(data, **TIMES)
    assert "<&>]]>" in "".join(junit_of(report).itertext())


def test_prometheus_has_every_figure_in_base_units() -> None:
    report = make_report(run_of(), **TIMES)
    found = samples_of(report)
    figures = [one["gbps"] for cable in report["cables"] for rail in cable["rails"].values() for one in rail["measurements"]]
    assert sorted(value for _labels, value in found["rail_bits_per_second"]) == pytest.approx(sorted(figure * 1e9 for figure in figures))
    assert len(found["rail_expected_bits_per_second"]) == len(figures)
    assert found["run_duration_seconds"][0][1] == 90
    assert found["run_finished_timestamp_seconds"][0][1] == 1796076990
    assert {labels["node"] for labels, value in found["node_answered"] if value} == {"spark1", "spark2", "spark3"}
    assert "finding_failed" not in found


def test_prometheus_names_what_fails() -> None:
    data = run_of()
    cut(data)
    data["drift"] = [DRIFT]
    data["not_tested"] = []
    found = samples_of(make_report(data, **TIMES))
    assert found["finding_failed"] == [({"cluster": "spark", "id": "link.carrier", "subject": CABLE, "layer": "link"}, 1.0)]
    assert {(labels["cable"], value) for labels, value in found["rail_ok"]} == {(CABLE, 0.0), ("spark1:1-spark3:0", 1.0), ("spark2:0-spark3:1", 1.0)}
    assert [value for labels, value in found["drift_settings"] if labels["node"] == "spark1"] == [1.0]


def test_labels_are_escaped() -> None:
    report = make_report(run_of(), **TIMES)
    report["cluster"] = 'a"b\\c\nd'
    assert samples_of(report)["verdict"][0][0]["cluster"] == 'a"b\\c\nd'


def test_no_host_takes_a_name_of_the_report() -> None:
    assert host_file("spark1", "html") == "spark1.html"
    assert host_file("report", "html") == "host-report.html"
    assert host_file("a/b", "json") == "a_b.json"


def test_a_large_cluster_is_judged_and_written_within_its_budget() -> None:
    """64 nodes: 10 s and 500 MB for judging and all files."""
    script = UNIT.parent / "bench/controller.py"
    if not script.is_file():
        pytest.skip("the benches are not part of this copy")
    result = subprocess.run([sys.executable, str(script), "--one", "report"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["files"] == 5 + 2 * 64
    assert found["cpu_seconds"] < 10 and found["megabytes"] < 500


def test_a_run_of_two_switch_ports_has_no_series_twice() -> None:
    data = healthy.healthy_run(healthy.plan_of("switch", 4, fabric_ports=[0, 1], fabric_switch_pairs="all"))
    assert samples_of(make_report(data, **TIMES))["rail_ok"]
