# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as pages: ``report.html`` and one ``<host>.html`` a node. Each is one file that needs no network and no script."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import jinja2

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_view import Pages

TEMPLATES = pathlib.Path(__file__).resolve().parent / "report_templates"


def files(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of this format, name to content."""
    # Everything in a report came from nodes: names, messages and logs are text, never markup.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, auto_reload=False
    )
    pages = Pages(report)
    host_template = environment.get_template("host.html.j2")
    content = {"report.html": environment.get_template("cluster.html.j2").render(pages.cluster_page())}
    for host, name in pages.links.items():
        content[name] = host_template.render(pages.host_page(host))
    return content
