# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An OpenAI-compatible server that is broken on purpose, each way by its name; ``good`` answers as it should.

``python openai_server.py FAULT [PORT]`` serves until it is ended, and prints its URL.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

MODEL = "tiny"
VERSION = "0.12.3"
CONTEXT = 4096
#: Faults that a single request shows.
ALWAYS = ("http", "silent", "stalled", "truncated", "ended_early", "stream_error", "unauthorized", "not_streamed", "page", "no_text", "two_models", "no_list")
#: Faults that only some of many requests show, every third one: the look before the load finds nothing.
SOMETIMES = ("some_http", "some_stalled", "some_truncated", "some_ended_early", "some_short")
EVERY = 3


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """One server with one fault."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, fault: str, port: int = 0, token_seconds: float = 0.002) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.fault, self.token_seconds = fault, token_seconds
        self.over = threading.Event()
        self.asked: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def turn(self, asked: dict[str, Any]) -> str:
        """Note a request and return the fault that it meets."""
        with self._lock:
            self.asked.append(asked)
            number = len(self.asked)
        if self.fault in SOMETIMES:
            return self.fault.removeprefix("some_") if number % EVERY == 0 else "good"
        return self.fault

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that give up are part of the tests."""


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.server.fault == "unauthorized":
            self.answer(401, {"error": {"message": "Invalid API key"}})
        elif self.server.fault == "page":
            self.send(200, b"<html><body>router</body></html>", "text/html")
        elif self.path == "/v1/models" and self.server.fault != "no_list":
            models = [MODEL, "other"] if self.server.fault == "two_models" else [MODEL]
            self.answer(200, {"object": "list", "data": [{"id": one, "object": "model", "owned_by": "vllm", "max_model_len": CONTEXT} for one in models]})
        elif self.path == "/version" and self.server.fault != "no_list":
            self.answer(200, {"version": VERSION})
        elif self.path == "/health":
            self.answer(200, {})
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        fault = self.server.turn(asked)
        tokens = int(asked.get("max_completion_tokens") or asked.get("max_tokens") or 16)
        if fault == "http":
            self.answer(500, {"error": {"message": "CUDA error: out of memory", "type": "InternalServerError"}})
        elif fault == "silent":
            self.server.over.wait()
        elif fault == "not_streamed":
            self.answer(200, {"choices": [{"message": {"role": "assistant", "content": "one two"}, "finish_reason": "stop"}]})
        else:
            self.stream(fault, tokens, "messages" in asked)

    def stream(self, fault: str, tokens: int, chat: bool) -> None:
        """Answer as a stream, as far as the fault lets it come."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        broken = fault in ("stalled", "truncated", "ended_early", "stream_error")
        count = min(3, tokens) if broken else max(1, tokens // 2) if fault == "short" else 0 if fault == "no_text" else tokens
        for number in range(count):
            time.sleep(self.server.token_seconds)
            self.event(self.chunk(f"word{number} ", None, chat))
        if fault == "stalled":
            self.server.over.wait()
        elif fault == "truncated":
            self.close_connection = True
            self.wfile.flush()
            self.connection.close()
        elif fault == "ended_early":
            self.chunked(b"")
        elif fault == "stream_error":
            self.event({"error": {"message": "EngineCore died", "code": 500}})
            self.chunked(b"")
        else:
            self.event(self.chunk("", "stop" if fault == "short" else "length", chat))
            self.event({"id": "x", "object": "chat.completion.chunk", "choices": [], "usage": {
                "prompt_tokens": 10, "completion_tokens": count, "total_tokens": 10 + count}})
            self.chunked(b"data: [DONE]\n\n")
            self.chunked(b"")

    @staticmethod
    def chunk(text: str, finish: str | None, chat: bool) -> dict[str, Any]:
        """Return one piece of an answer."""
        body = {"delta": {"content": text} if text else {}} if chat else {"text": text}
        return {"id": "x", "object": "chat.completion.chunk" if chat else "text_completion", "model": MODEL, "choices": [
            {"index": 0, **body, "finish_reason": finish}]}

    def event(self, document: dict[str, Any]) -> None:
        """Send one event."""
        self.chunked(f"data: {json.dumps(document)}\n\n".encode())

    def chunked(self, data: bytes) -> None:
        """Send one chunk; an empty one ends the answer."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def answer(self, status: int, document: dict[str, Any]) -> None:
        """Send JSON."""
        self.send(status, json.dumps(document).encode(), "application/json")

    def send(self, status: int, body: bytes, kind: str) -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def serving(fault: str = "good", **more: Any) -> Iterator[Server]:
    """Serve in a thread."""
    server = Server(fault, **more)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    standing = Server(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(standing.url, flush=True)
    standing.serve_forever()
