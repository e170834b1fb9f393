# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What limits inference: constructed sets of measurements with the verdict that each must get, and the section in every format."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.bottleneck import bottleneck_rows, decide
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.faster_network import cable_rate, gain_percent
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_runs import read_runs
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_layers import inference_beside
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import judge_again, make_report, report_files, with_bottleneck
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.summary import WIDTH, summary_lines
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import check_run, cut, run_of
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_nccl_proof import fact_of
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_nccl_proof import run_of as nccl_run
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_report import SCHEMA, schema_errors

CONDITIONS = {
    "model": "GLM-5.2", "quantisation": "fp8", "context_tokens": 32768, "input_tokens": 1024, "output_tokens": 256, "concurrency": 8, "stack": "vLLM 0.12"}
#: Of the ring of four that was published: 40 layers, one message of 10 KB each, 17.76 ms a token.
DECODE = {"layers": 40, "message_bytes": 10240, "token_ms": 17.76}
#: Large messages: 64 MiB a layer and 60 ms a step are bound by the link.
PREFILL = {"layers": 40, "message_bytes": 8 * 2**20, "token_ms": 120}


def rdma(percent: float | None = 98.0, gbps: float | None = None, findings: tuple[str, ...] = (), unknown: tuple[str, ...] = ()) -> dict[str, Any]:
    rate = gbps if gbps is not None else None if percent is None else percent
    return {"percent": percent, "lowest_gbps": rate, "highest_gbps": rate, "findings": list(findings), "unknown": list(unknown)}


def nccl(percent: float | None = 96.0, ring: bool = False, findings: tuple[str, ...] = ()) -> dict[str, Any]:
    rate = None if percent is None else round(12.3 * percent / 100, 2)
    text = "" if percent is None else "all_reduce"
    told = {"text": text, "findings": list(findings)}
    return {"percent": percent, "gbytes_per_s": rate, "slack": 1.02, "round_a_ring": ring, "everywhere": ring, **told}


def run(nodes: int, rate: float, link: float | None = None, conditions: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "nodes": nodes, "throughput_tokens_per_s": rate, "conditions": {**CONDITIONS, **(conditions or {})}, **({"link_gbps": link} if link else {}), **more}


def measured(rdma_: Any = None, nccl_: Any = None, *runs: Any, link: float = 100.0) -> dict[str, Any]:
    return {"link_gbps": link, "mtu": 9000, "rdma": rdma_, "nccl": nccl_, "inference": {"spark1": {"runs": list(runs)}} if runs else {}}


FLAT = (run(1, 60), run(6, 90))
LINEAR = (run(1, 60), run(6, 345))
MIDDLING = (run(1, 60), run(6, 252))

#: Name, set, decision, answer for 200G, its confidence, words of the message, words of what it says of 200G.
SETS: list[tuple[str, dict[str, Any], str, str, str, str, str]] = [
    ("nothing", measured(), "not_enough_data", "open", "none", "RDMA was not measured", "RDMA was not measured"),
    ("inference alone", measured(None, None, *FLAT), "not_enough_data", "open", "none", "RDMA was not measured", ""),
    ("nccl alone", measured(None, nccl()), "not_enough_data", "open", "none", "RDMA", ""),
    ("rdma in part", measured(rdma(unknown=("rdma.measured on a:0-b:1/a",)), nccl(), *FLAT),
     "not_enough_data", "open", "none", "rdma.measured on a:0-b:1/a", ""),
    ("rdma good alone", measured(rdma()), "not_enough_data", "open", "none", "NCCL was not measured", "whether NCCL does"),
    ("rdma good, inference flat, no nccl", measured(rdma(), None, *FLAT), "not_enough_data", "open", "none", "NCCL was not measured", ""),
    ("rdma half", measured(rdma(51.4, findings=("rdma.one_rail_of_two on ring",))),
     "mend_configuration", "no", "high", "RDMA reaches 51 %", "up to 1.95 times"),
    ("rdma half, no finding (site's limits)", measured(rdma(51.4), nccl(50)), "mend_configuration", "no", "high", "configuration first", "1.95 times"),
    ("all poor", measured(rdma(40, findings=("link.speed on a",)), nccl(39), *FLAT), "mend_configuration", "no", "high", "configuration first", "2.50 times"),
    ("link down, no figure", measured(rdma(None, findings=("link.carrier on a:0-b:1",))), "mend_configuration", "no", "high", "is not measured", "failures"),
    ("rdma poor, inference linear", measured(rdma(60), nccl(58), *LINEAR), "mend_configuration", "no", "high", "still keeps 96 % of linear", ""),
    ("rdma good, nccl poor", measured(rdma(), nccl(50)), "nccl_limits", "no", "medium", "NCCL, not the links", "does not fill the link"),
    ("nccl over tcp", measured(rdma(), nccl(None, findings=("nccl.transport on spark",)), *FLAT), "nccl_limits", "no", "medium", "its checks fail", "see its"),
    ("nccl poor, inference linear", measured(rdma(), nccl(60), *LINEAR), "nccl_limits", "no", "medium", "waits little", ""),
    ("ring shares its pcie links", measured(rdma(), nccl(60, ring=True)),
     "not_enough_data", "open", "none", "two numbers of nodes", "how long the workload waits"),
    ("ring poor", measured(rdma(), nccl(50, ring=True)), "nccl_limits", "no", "medium", "NCCL, not", ""),
    ("one number of nodes", measured(rdma(), nccl(), run(6, 90)), "not_enough_data", "open", "none", "two numbers of nodes", ""),
    ("flat, exchange not known", measured(rdma(), nccl(), *FLAT), "workload", "open", "none", "25 % of linear", "at most +60.0 %"),
    ("flat, decode computed", measured(rdma(), nccl(), run(1, 60), run(6, 90, communication=DECODE)), "workload", "no", "medium", "split", "+0.2 % (computed)"),
    ("flat, prefill computed", measured(rdma(), nccl(), run(1, 60), run(6, 90, communication=PREFILL)), "workload", "yes", "medium", "split", "(39.5 %) wait"),
    ("flat, profile says little", measured(rdma(), nccl(), run(1, 60), run(6, 90, communication_percent=6)),
     "workload", "no", "medium", "split", "at most +3.1 %"),
    ("middling", measured(rdma(), nccl(), *MIDDLING), "scales", "open", "none", "70 % of linear", "at most +17.6 %"),
    ("linear", measured(rdma(), nccl(), *LINEAR), "scales", "no", "medium", "no layer falls short", "at most +2.1 %"),
    ("more than linear", measured(rdma(), nccl(), run(1, 60), run(2, 140)), "scales", "no", "medium", "117 % of linear", "+0.0 %"),
    ("two against six bounds nothing", measured(rdma(), nccl(), run(2, 100), run(6, 285)),
     "scales", "open", "none", "95 % of linear", "how long the workload waits"),
    ("pilot gains", measured(rdma(), nccl(), *FLAT, run(6, 120, 200)), "workload", "yes", "high", "split", "+33.3 %"),
    ("pilot gains nothing", measured(rdma(), nccl(), *FLAT, run(6, 92, 200)), "workload", "no", "high", "split", "+2.2 %"),
    ("pilot under other conditions", measured(rdma(), nccl(), *FLAT, run(6, 120, 200, {"concurrency": 64})), "workload", "open", "none", "split", "at most"),
    ("200G already", measured(rdma(gbps=196), nccl(), *FLAT, link=200.0), "workload", "already", "high", "split", "the links have 200 Gb/s"),
    ("200G by the plan alone", measured(None, nccl(), link=200.0), "not_enough_data", "open", "none", "RDMA", "fabric_link_gbps says 200"),
    ("200G already, measured before", measured(rdma(gbps=196), nccl(), *FLAT, run(6, 88, 100), link=200.0), "workload", "already", "high", "", "+2.3 %"),
    ("200G already, half of it", measured(rdma(51.4, 102.8), nccl(), link=200.0), "mend_configuration", "already", "high", "51 %", "200 Gb/s"),
    ("conditions differ", measured(rdma(), nccl(), run(1, 60), run(6, 90, None, {"quantisation": "int4"})),
     "not_enough_data", "open", "none", "same conditions", ""),
    ("contradictory: nccl above rdma", measured(rdma(98, 48.0), nccl(96)), "contradictory", "open", "none", "did not meet the same network", "contradict"),
    ("contradictory: rdma poor, nccl full", measured(rdma(50), nccl(96), *FLAT), "contradictory", "open", "none", "94.5 Gb/s where RDMA alone moved 50.0", ""),
    ("contradictory: nccl above its ceiling", measured(rdma(gbps=196), nccl(140)), "contradictory", "open", "none", "140 %", ""),
    ("contradictory: rdma above expected", measured(rdma(150), nccl()), "contradictory", "open", "none", "rates are too low", ""),
    ("contradictory: repeats", measured(rdma(), nccl(), run(1, 60), run(6, 90), run(6, 240)), "contradictory", "open", "none", "90.0 and 240.0", ""),
    ("contradictory: exchange above loss", measured(rdma(), nccl(), run(1, 60), run(6, 345, communication=PREFILL)),
     "contradictory", "open", "none", "lost", ""),
    ("contradictory: slower at 200G", measured(rdma(), nccl(), *FLAT, run(6, 60, 200)), "contradictory", "open", "none", "slower at 200G", ""),
    ("contradictory: gains more than is lost", measured(rdma(), nccl(), *LINEAR, run(6, 600, 200)), "contradictory", "open", "none", "1.74 times", ""),
    ("rdma poor hides doubts above", measured(rdma(40), None, run(1, 60), run(6, 90), run(6, 240)),
     "mend_configuration", "no", "high", "configuration", "2.50 times"),
]


@pytest.mark.parametrize(("given_set", "decision", "answer", "confidence", "words", "words_200g"), [one[1:] for one in SETS], ids=[one[0] for one in SETS])
def test_each_set_gets_its_verdict(given_set: dict[str, Any], decision: str, answer: str, confidence: str, words: str, words_200g: str) -> None:
    found = decide(given_set)
    faster = found["faster_network"]
    assert (found["decision"], faster["answer"], faster["confidence"]) == (decision, answer, confidence), found
    assert words in found["message"] + " ".join(found["next"]) and words_200g in faster["text"]
    if decision != "mend_configuration":
        assert bool(found["contradictions"]) == (decision == "contradictory")
    if decision == "not_enough_data":
        assert found["message"].startswith("not enough data: ") and any(text.startswith(("run ", "measure ")) for text in found["next"])


def test_the_findings_to_mend_are_named() -> None:
    names = tuple(f"link.carrier on cable{number}" for number in range(6))
    assert decide(measured(rdma(20, findings=names)))["next"][0] == f"mend {', '.join(names[:4])} and 2 more"


def test_differing_conditions_are_named() -> None:
    found = decide(measured(rdma(), nccl(), run(1, 60), run(6, 90, None, {"quantisation": "int4", "spec": "on"})))
    assert found["left_out"] == ["the runs on 1 and 6 nodes differ in quantisation (fp8 and int4), spec (not stated and on) and are not compared"]


def test_scaling_shows_its_arithmetic() -> None:
    found = decide(measured(rdma(), nccl(), *FLAT))["scaling"]
    assert found["text"] == "6 nodes 90.0, 1 node 60.0 tokens/s: 1.50 times with 6 times the nodes, 25 % of linear"
    assert (found["ratio"], found["percent"]) == (1.5, 25.0)


def test_the_formulas() -> None:
    assert gain_percent(0.0, 2.0) == 0.0 and gain_percent(1.0, 2.0) == pytest.approx(100.0) and gain_percent(0.5, 2.0) == pytest.approx(33.33, abs=0.01)
    assert cable_rate(200, 9000) / cable_rate(100, 9000) == pytest.approx(2.0)
    assert cable_rate(400, 9000) == pytest.approx(2 * 121.3, abs=0.2)  # the PCIe links of one port, not the link


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"nodes": "six"}, "has nodes 'six', expected a whole number from 1"),
        ({"nodes": True}, "has nodes"),
        ({"throughput_tokens_per_s": 0}, "has throughput_tokens_per_s 0, expected a number above 0"),
        ({"throughput_tokens_per_s": float("nan")}, "has throughput_tokens_per_s"),
        ({"link_gbps": "fast"}, "has link_gbps"),
        ({"errors": 3}, "had errors (3)"),
        ({"conditions": {}}, "does not state its conditions model, quantisation"),
        ({"conditions": None}, "does not state its conditions"),
        ({"communication_percent": 120}, "expected 0 to 100"),
        ({"communication": {"layers": 40}}, "communication.message_bytes"),
        ({"communication": {**DECODE, "messages_per_layer": "two"}}, "communication.messages_per_layer"),
    ],
)
def test_a_run_that_cannot_be_used_is_left_out_by_name(broken: dict[str, Any], words: str) -> None:
    found = decide(measured(rdma(), nccl(), run(1, 60), {**run(6, 90), **broken}))
    assert found["decision"] == "not_enough_data"
    assert len(found["left_out"]) == 1 and found["left_out"][0].startswith("inference run 2 of spark1 ") and words in found["left_out"][0]


JSON = st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=6), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(["runs", "nodes", "throughput_tokens_per_s", "conditions", "communication", "layers", "model"]), inner, max_size=4), max_leaves=12)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=3))
def test_no_input_of_inference_raises(results: dict[str, Any]) -> None:
    runs, problems = read_runs(results, 100.0)
    assert bool(problems) or not runs or all(one.tokens_per_s > 0 for one in runs)
    decide({**measured(rdma(), nccl()), "inference": results})


def proven() -> dict[str, Any]:
    """Return a healthy mesh whose nccl-tests ran over both rails."""
    data = run_of()
    data["nccl"] = {"spark1": fact_of(data["plan"], nccl_run(data["plan"]))}
    return data


def test_a_run_of_rdma_alone_says_nothing_unless_asked() -> None:
    assert "bottleneck" not in make_report(run_of()) and "bottleneck" not in make_report(check_run())
    assert make_report(run_of(), asked=True)["bottleneck"]["decision"] == "not_enough_data"
    assert "RDMA was not measured" in make_report(check_run(), asked=True)["bottleneck"]["message"]
    stand_in = proven()
    stand_in["nccl"]["spark1"]["stand_in"] = True
    assert "bottleneck" not in make_report(stand_in)


def test_the_section_stands_in_every_format_and_survives_judging_again() -> None:
    data = proven()
    data["inference"] = {"spark1": {"runs": [run(1, 60), run(3, 90)]}}
    report = make_report(data, started="2026-11-30T22:15:00Z")
    assert report["bottleneck"]["decision"] == "workload" and report["bottleneck"]["states"] == {"rdma": "good", "nccl": "good", "inference": "poor"}
    assert report["bottleneck"]["faster_network"]["answer"] == "already"
    files = report_files(report)
    assert schema_errors(json.loads(files["report.json"])) == []
    for name, heading in (("summary.md", "## Bottleneck"), ("report.html", ">Bottleneck</h2>")):
        assert heading in files[name] and "inference keeps 50 % of linear growth" in files[name]
    lines = summary_lines(report)
    for words in ("Bottleneck: the way the work is split", "More nodes: 3 nodes 90.0"):
        assert any(line.startswith(words) for line in lines)
    assert len(lines) <= 24 and max(map(len, lines)) <= WIDTH
    assert report_files(judge_again(json.loads(files["report.json"]))) == files


def test_a_cut_cable_is_mended_first() -> None:
    data = proven()
    cut(data)
    found = make_report(data)["bottleneck"]
    assert found["decision"] in ("mend_configuration", "contradictory") and "link.carrier" in str(found["next"])


def test_inference_of_other_runs_keeps_its_own_link() -> None:
    data = proven()
    report = make_report(data, run_id="20261130T221500Z-ab12")
    other = {"run_id": "20261129T221500Z-ab12", "plan": {"link_gbps": 100.0}, "inference": {"spark1": {"runs": [run(3, 80), "no run"]}, "spark2": None}}
    report["inference"] = inference_beside({**report, "inference": {"spark1": {"runs": [run(1, 60), run(3, 90)]}}}, [other, report])
    assert list(report["inference"]) == ["spark1", "spark1 in run 20261129T221500Z-ab12", "spark2 in run 20261129T221500Z-ab12"]
    found = with_bottleneck(report)["bottleneck"]
    assert found["faster_network"]["text"] == "the links have 200 Gb/s; 3 nodes 80.0 tokens/s at 100G, 90.0 at 200G: +12.5 %"
    assert len(found["left_out"]) == 2


def test_the_example_of_the_document_gives_the_lines_that_it_shows() -> None:
    page = SCHEMA.parent / "verdict.md"
    if not page.is_file():
        pytest.skip("the documents are not part of this copy")
    text = page.read_text(encoding="utf-8")
    runs = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])["report_inference"]
    rows = bottleneck_rows({"bottleneck": decide(measured(rdma(), nccl(), *runs))})
    shown = {line.strip().partition(": ")[0]: line.strip() for line in text.splitlines() if line.startswith("    ") and ": " in line}
    for name in ("Bottleneck", "More nodes", "200G"):
        assert f"{name}: {dict(rows)[name]}.".startswith(shown[name].rstrip("…")), name
