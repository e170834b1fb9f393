# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job of an inference measurement, from what the role was given. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_job_spec import JobInputError, parse_job
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, closest

#: What an option has when nobody gives it; the role's defaults are the same, by test. Times in seconds.
DEFAULTS: dict[str, Any] = {
    "url": "",
    "api": "chat",
    "verify": True,
    "extra": {"ignore_eos": True},
    "model": "",
    "tokenizer": "",
    "quantisation": "",
    "context_tokens": 0,
    "stack": "",
    "parallel": "",
    "input_tokens": 1024,
    "output_tokens": 256,
    "concurrency": [1, 8],
    "requests": 100,
    "warmup_requests": 8,
    "run_seconds": 600,
    "connect_seconds": 10,
    "stall_seconds": 60,
    "request_seconds": 600,
    "program": "",
    "version": "0.13.0",
    "python": "",
    "environment": "~/.cache/dgxspark-fabric",
    "pip_options": [],
    "install_seconds": 1800,
}


def make_inference_job(options: Mapping[str, Any], node: str, run: str, nodes: int, link_gbps: float) -> dict[str, Any]:
    """Return the job that the module ``inference_bench`` takes.

    :param options: of ``DEFAULTS``, as the role passes them; what is left out has its default
    :param node: that drives the endpoint
    :param run: name of the run
    :param nodes: how many serve the model
    :param link_gbps: speed of the plan's links
    :raises FabricError: naming the variable of the role that cannot be used
    """
    unknown = next((name for name in options if name not in DEFAULTS), None)
    if unknown is not None:
        raise FabricError(f"inference_bench_{unknown} is no option of the job{closest(str(unknown), DEFAULTS)}")
    job = {**DEFAULTS, **options, "node": node, "run": run, "nodes": nodes, "link_gbps": link_gbps}
    job["kind"] = job.pop("api")
    try:
        parse_job(job)
    except JobInputError as error:
        raise FabricError(str(error)) from None
    return job
