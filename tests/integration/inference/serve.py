# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Serve a model with llama.cpp's own server until ended, and print its URL. Needs xllamacpp, which carries that server."""

from __future__ import annotations

import sys
import threading

import xllamacpp

SLOTS, CONTEXT = 4, 8192


def serve(path: str) -> None:
    """Serve."""
    settings = xllamacpp.CommonParams()
    settings.model.path = path
    settings.model_alias = ["tiny"] if not isinstance(settings.model_alias, str) else "tiny"
    settings.n_ctx, settings.n_parallel, settings.warmup = CONTEXT, SLOTS, False
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    settings.chat_template = "chatml"
    settings.cpuparams.n_threads = 1
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    serve(sys.argv[1])
