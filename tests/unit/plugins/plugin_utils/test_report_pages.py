# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages of a report: what stands on them, that they are whole in themselves, and how a browser lays them out."""

from __future__ import annotations

import html.parser
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils import format_html
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.comparison import compare, digest
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import make_report
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_table import scenario_rows
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.headless_browser import Browser, executable
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.sweeps import ladder, nccl_sweep
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_bottleneck import run as inference
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import a_little_slow, check_run, run_of, silence, unplug

TIMES = {"started": "2026-11-30T22:15:00Z", "finished": "2026-11-30T22:16:30Z"}
DRIFT = {"host": "spark1", "subject": "enp1s0f0np0", "key": "mtu", "wanted": 9000, "live": 1500, "message": "MTU 1500, wanted 9000"}
CUT = "spark2:0-spark3:1"
EVIL = "</title><script>alert(1)</script><img src=http://example.invalid/x onerror=alert(2)>"

#: Elements that HTML closes by itself.
VOID = {"meta", "link", "br", "wbr", "img", "hr", "input", "rect", "line"}

Report = dict[str, Any]


def cut_ring() -> Report:
    """Return the report of a ring of 8 with a cut cable, a slow rail, drift, and a better run before; TCP was not asked for."""
    data = run_of("ring", 8, fabric_iperf3_streams=[])
    for name, node in data["plan"]["nodes"].items():
        for interface, planned in node["interfaces"].items():
            if planned["cable"] == CUT:
                unplug(data, name, interface)
    silence(data, CUT)
    for record in healthy.records(data, "spark5:0-spark6:1", "a", "directed"):
        if record["gbps"]:
            record["gbps"] = 84.0
    data["drift"] = [DRIFT]
    report = make_report(data, **TIMES)
    report["comparison"] = [compare(digest(report), digest(make_report(run_of("ring", 8), run_id="20261129T221500Z-ab12", **TIMES)), "last_good")]
    return report


def odd_names() -> Report:
    """Return the report of a mesh with long names."""
    hosts = [f"{word}-spark-in-rack-12.cluster.example.org" for word in ("first", "second", "third")]
    plan = healthy.make_plan({host: {"fabric_topology": "mesh", "ansible_host": f"10.77.0.{place}"} for place, host in enumerate(hosts, 11)})
    return make_report(healthy.healthy_run(plan), **TIMES)


def slow_graph() -> Report:
    """Return the report of five nodes joined by hand, two of them twice."""
    cables = [{"a": f"spark{a}", "b": f"spark{b}"} for a, b in (("1:0", "2:0"), ("1:1", "2:1"), ("3:0", "4:1"), ("4:0", "5:1"), ("5:0", "3:1"))]
    return make_report(healthy.healthy_run(healthy.plan_of("custom", 5, fabric_cables=cables)), **TIMES)


def silent_node() -> Report:
    """Return the report of a check with a node that does not answer."""
    data = check_run()
    data["nodes"]["spark2"] = None
    data["unreachable"]["spark2"] = "ssh: no route to host"
    return make_report(data, **TIMES)


def measured(topology: str, count: int) -> Report:
    """Return the report of a healthy cluster on which TCP and NCCL were measured too."""
    data = run_of(topology, count)
    data["iperf3"] = ladder(data["plan"])
    hosts = list(data["plan"]["nodes"])
    runs = [nccl_sweep("all_reduce", hosts), nccl_sweep("all_reduce", hosts[:2], 0.98), nccl_sweep("all_gather", hosts, 0.9)]
    data["nccl"] = {hosts[0]: {"runs": [*runs, *(nccl_sweep("sendrecv", hosts[:2], 0.6 + 0.05 * number) for number in range(6))]}}
    return make_report(data, **TIMES)


def scenarios() -> Report:
    """Return the report of a pair with the table of scenarios: two measured, a long name among them, and one without a run."""
    reports = {"A": measured("pair", 2), "B": measured("switch", 6), "over the switch that was borrowed for a week in spring": None}
    for nodes, name in ((2, "A"), (6, "B")):
        split = f"tensor parallel {nodes}, one stage, experts on every node"
        one = inference(nodes, 30.0 * nodes, request_ms={"p95": 20512.5}, parallel=split)
        reports[name]["inference"] = {"spark1": {"runs": [one, inference(nodes, 1, errors=2)]}}
        reports[name]["scenario"] = {"name": name, "network": "100G", "nodes": str(nodes), "notes": "DAC of 1 m, MTU 9000, " + "as-delivered-" * 8}
    entries = [{"name": name} for name in reports]
    return {**reports["A"], "scenarios": scenario_rows(entries, reports)}


CASES = {
    "pair": lambda: measured("pair", 2),
    "mesh": lambda: measured("mesh", 3),
    "ring": cut_ring,
    "switch": lambda: measured("switch", 64),
    "two ports on a switch": lambda: make_report(healthy.healthy_run(healthy.plan_of("switch", 4, fabric_ports=[0, 1])), **TIMES),
    "graph": slow_graph,
    "long names": odd_names,
    "silent": silent_node,
    "scenarios": scenarios,
}


class Reader(html.parser.HTMLParser):
    """Checks that elements nest, and gathers what a page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: dict[str, int] = {}
        self.links: list[str] = []
        self.loads: list[str] = []
        self.untitled = 0
        self.handlers: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.open and self.open[-1] == "svg" and tag != "title" and self.untitled:
            raise AssertionError(f"an svg begins with {tag} instead of its title at line {self.getpos()}")
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag == "title" and self.open and self.open[-1] == "svg":
            self.untitled -= 1
        if tag == "svg":
            self.untitled += 1
        for name, value in attrs:
            if name.startswith("on"):
                self.handlers.append(name)
            if name in ("src", "srcset", "data", "xlink:href") or name == "href" and tag != "a":
                self.loads.append(str(value))
            if name == "href" and tag == "a":
                self.links.append(str(value))
            if name == "id":
                self.ids.append(str(value))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open and self.open.pop() == tag, f"</{tag}> at line {self.getpos()}"


@pytest.fixture(scope="module", name="pages")
def pages_fixture(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    """Write the pages of every case."""
    folders = {}
    for name, make in CASES.items():
        folder = tmp_path_factory.mktemp(name.replace(" ", "_"))
        for file, text in format_html.files(make()).items():
            (folder / file).write_text(text, encoding="utf-8")
        folders[name] = folder
    return folders


@pytest.fixture(scope="module", name="browser")
def browser_fixture() -> Iterator[Browser]:
    """Start a browser."""
    if executable() is None:
        pytest.skip("no Chromium here: install the package chromium")
    browser = Browser()
    yield browser
    browser.close()


@pytest.mark.parametrize("case", CASES)
def test_pages_are_whole_in_themselves(pages: dict[str, pathlib.Path], case: str) -> None:
    files = {path.name for path in pages[case].iterdir()}
    for path in sorted(pages[case].iterdir())[:6] + [pages[case] / "report.html"]:
        text = path.read_text(encoding="utf-8")
        reader = Reader(text)
        assert reader.open == [] and reader.untitled == 0
        assert reader.tags.get("svg", 0) >= 2 and "script" not in reader.tags and reader.handlers == []
        assert reader.loads == ["data:,"] and "url(" not in text and "@import" not in text
        assert all(link.startswith("#") or link in files for link in reader.links)
        assert {link[1:] for link in reader.links if link.startswith("#")} <= set(reader.ids)
        assert len(reader.ids) == len(set(reader.ids)) and reader.tags["h1"] == reader.tags["main"] == 1


def test_findings_come_first_with_cause_and_fix(pages: dict[str, pathlib.Path]) -> None:
    text = (pages["ring"] / "report.html").read_text(encoding="utf-8")
    order = ("findings", "comparison", "picture", "bandwidth", "nodes", "versions", "environment", "notes", "repeat")
    places = [text.index(f'id="h-{name}"') for name in order]
    assert places == sorted(places)
    row = text[text.index("link.carrier</span>") :][:2000]
    assert f"<strong>{CUT}</strong>" in row and "is not plugged in" in row and "Push in both plugs" in row
    assert text.index("link.carrier</span>") < text.index("rdma.rail_bandwidth</span>")
    assert 'id="tcp"' not in text and 'id="nccl"' not in text, "what was not measured has no section"
    healthy_page = (pages["mesh"] / "report.html").read_text(encoding="utf-8")
    sections = ("findings", "picture", "bandwidth", "tcp", "nccl", "nodes", "versions", "environment", "repeat")
    places = [healthy_page.index(f'id="h-{name}"') for name in sections]
    assert places == sorted(places)
    for words in ("NCCL_IB_HCA", "mlx5_core", "28.45.4028", "playbooks/validate.yml", "plan.ring_trees", "lost", "mtu"):
        assert words in text


def test_what_nodes_say_is_text_and_never_markup() -> None:
    data = run_of()
    a_little_slow(data)
    data["nodes"]["spark1"]["kernel"] = EVIL
    data["unreachable"]["spark2"] = EVIL
    data["nodes"]["spark2"] = None
    data["plan"]["notes"] = [{"id": "plan.x", "subject": EVIL, "message": EVIL}]
    data["drift"] = [{"host": "spark1", "subject": EVIL, "key": EVIL, "wanted": EVIL, "live": EVIL, "message": EVIL}]
    for record in healthy.records(data):
        record["command"] = ["ib_write_bw", EVIL]
    for name, text in format_html.files(make_report(data, **TIMES)).items():
        reader = Reader(text)
        assert "script" not in reader.tags and "img" not in reader.tags, name
        assert "alert(1)" in text


def test_a_node_that_did_not_answer_has_its_page(pages: dict[str, pathlib.Path]) -> None:
    text = (pages["silent"] / "spark2.html").read_text(encoding="utf-8")
    assert "ssh: no route to host" in text and "The node did not answer." in text
    assert "Load tests are skipped in check mode" in text


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("case", CASES)
def test_a_browser_lays_the_pages_out(pages: dict[str, pathlib.Path], browser: Browser, case: str, width: int, dark: bool) -> None:
    for page in (pages[case] / "report.html", sorted(pages[case].glob("[!r]*.html"))[0]):
        browser.open(page, width, dark=dark)
        assert browser.requests() == [page.as_uri()]
        assert browser.complaints() == []
        browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate(OVERFLOWING) == []
        assert browser.evaluate(UNTITLED) == 0
        assert browser.evaluate(FAINT) == []
        assert browser.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") is dark
        assert browser.evaluate("document.body.innerText").strip()


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("case", ["pair", "mesh", "ring", "switch", "two ports on a switch", "graph", "long names"])
def test_nothing_in_the_picture_overlaps(pages: dict[str, pathlib.Path], browser: Browser, case: str, width: int) -> None:
    browser.open(pages[case] / "report.html", width)
    assert browser.evaluate(OVERLAPPING) == []


@pytest.mark.parametrize("case", ["mesh", "ring", "switch"])
def test_a_printed_page_keeps_its_margins(pages: dict[str, pathlib.Path], browser: Browser, case: str) -> None:
    browser.open(pages[case] / "report.html", 703)  # A4 within the margins
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 703
    assert browser.evaluate(OVERFLOWING) == []
    assert browser.evaluate("[...document.querySelectorAll('details:not(.data)')].filter(one => !one.closest('td') && !one.offsetHeight).length") == 0


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize(("case", "charts"), [("pair", 4), ("mesh", 4), ("switch", 4), ("ring", 0)])
def test_no_words_of_a_chart_lie_on_one_another(pages: dict[str, pathlib.Path], browser: Browser, case: str, charts: int, width: int) -> None:
    browser.open(pages[case] / "report.html", width)
    assert browser.evaluate(CHARTS) == [charts, []]


#: The number of shown charts, and their texts that overlap or stick out.
CHARTS = """(() => {
  const frame = one => one.getBoundingClientRect();
  const shown = [...document.querySelectorAll('svg.chart')].filter(one => frame(one).width);
  const found = [];
  shown.forEach(chart => {
    const texts = [...chart.querySelectorAll('text')];
    texts.forEach((one, i) => {
      const a = frame(one), all = frame(chart);
      if (a.left < all.left - 1 || a.right > all.right + 1 || a.top < all.top - 1 || a.bottom > all.bottom + 1) found.push('out: ' + one.textContent);
      texts.slice(i + 1).forEach(two => {
        const b = frame(two);
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2) {
          found.push(one.textContent + ' / ' + two.textContent);
        }
      });
    });
  });
  return [shown.length, found];
})()"""

#: Elements with text that stick out of the window and cannot be scrolled to within their own frame.
OVERFLOWING = """[...document.querySelectorAll('main *, header *')].filter(one => !one.closest('.sr, .scroll, thead') && one.getClientRects().length
  && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 120))"""

UNTITLED = """[...document.querySelectorAll('svg')].filter(one => {
  const first = one.firstElementChild;
  return !first || first.tagName !== 'title' || !first.textContent.trim();
}).length"""

#: Texts whose contrast against what lies behind them is below 4.5 (WCAG AA).
FAINT = """(() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const colour = parts(getComputedStyle(one).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const ratio = one => {
    const a = light(parts(getComputedStyle(one).color)), b = light(behind(one));
    return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  };
  const speaks = one => [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  return [...document.querySelectorAll('main *, header *, footer')]
    .filter(one => !one.closest('svg') && speaks(one) && ratio(one) < 4.5).slice(0, 5).map(one => one.outerHTML.slice(0, 120));
})()"""

#: Labels and nodes of the shown picture that lie on one another, and texts wider than their frames.
OVERLAPPING = """(() => {
  const frame = one => one.getBoundingClientRect();
  const shown = [...document.querySelectorAll('svg.picture')].find(one => frame(one).width);
  const rects = [...shown.querySelectorAll('rect.plate, rect.box')].map(one => ({name: one.parentElement.textContent.trim().slice(0, 60), box: frame(one)}));
  const found = [];
  rects.forEach((one, i) => rects.slice(i + 1).forEach(two => {
    const width = Math.min(one.box.right, two.box.right) - Math.max(one.box.left, two.box.left);
    const height = Math.min(one.box.bottom, two.box.bottom) - Math.max(one.box.top, two.box.top);
    if (width > 1 && height > 1) found.push(one.name + ' / ' + two.name);
  }));
  const fits = (text, box, slack) => {
    if (frame(text).left < frame(box).left - slack || frame(text).right > frame(box).right + slack) found.push('wide: ' + text.textContent);
  };
  shown.querySelectorAll('.told').forEach(label => label.querySelectorAll('text').forEach(text => fits(text, label.querySelector('rect'), 2)));
  shown.querySelectorAll('rect.box').forEach(box => fits(box.nextElementSibling, box, 1));
  return found.concat(rects.length < 3 ? ['no picture'] : []);
})()"""
