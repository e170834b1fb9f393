# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Look at an OpenAI-compatible endpoint before it is put under load: is it there, what does it serve, does one streamed answer come whole.

A load generator needs minutes to say what one request shows at once, and calls a stream that breaks off a good answer. So each way
in which an endpoint is broken has its name here: ``refused``, ``unresolved``, ``unreachable``, ``tls``, ``silent``, ``http``, ``unauthorized``,
``model``, ``not_openai``, ``not_streamed``, ``stalled``, ``truncated``.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import socket
import ssl
import time
import typing as t
import urllib.parse
from collections.abc import Callable, Mapping

#: What is asked for: enough to see a stream go on, little enough to end soon.
PROBE_TOKENS = 16
PROBE_TEXT = "Count from one to one hundred in words."
#: More of an answer is not kept.
TOLD = 300
ANSWER_LIMIT = 4 * 1024 * 1024
LINE_LIMIT = 1024 * 1024
#: Where servers say of themselves which version they are: vLLM, and llama.cpp.
VERSION_PATHS = (("/version", "version", "vLLM"), ("/props", "build_info", "llama.cpp"))
CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window")
#: llama.cpp puts them below ``meta``, and names there how the weights are kept.
META_CONTEXT, META_QUANTISATION = "n_ctx", "ftype"


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API is and how it is asked. ``url`` without the ``/v1``; times in seconds: to connect, without a byte, for the whole answer."""

    url: str
    kind: str = "chat"
    api_key: str = ""
    verify: bool = True
    connect_seconds: float = 10.0
    stall_seconds: float = 60.0
    request_seconds: float = 180.0
    #: Fields that every request carries besides, such as ``ignore_eos``.
    extra: Mapping[str, t.Any] = dataclasses.field(default_factory=dict)

    @property
    def path(self) -> str:
        """Path of the API that answers are asked of."""
        return "/v1/chat/completions" if self.kind == "chat" else "/v1/completions"


class EndpointProblem(Exception):
    """Something is wrong with an endpoint: ``id`` names its kind."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.id, self.message = name, message


def base_url(url: str) -> str:
    """Return the URL of an API without ``/v1`` and a closing slash.

    :raises ValueError: for what is no http or https URL with a host
    """
    text = url.strip().rstrip("/").removesuffix("/v1").rstrip("/")
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username or parts.port == 0:
        raise ValueError(f"expected a URL such as http://192.168.1.10:8000, without user and query, got {url[:120]!r}")
    return text


def look(endpoint: Endpoint, model: str = "", now: Callable[[], float] = time.monotonic) -> dict[str, t.Any]:
    """Return what an endpoint is.

    That is ``models``, ``model``, ``max_context_tokens``, ``quantisation``, ``server``, ``first_token_ms``, ``pieces``, ``counts_tokens`` (whether it says
    how many tokens an answer has), and ``problem`` (None, or id and message).

    :param model: to ask; "" takes the only one that is served
    :param now: clock, in seconds
    """
    seen: dict[str, t.Any] = {
        "models": [], "model": model, "max_context_tokens": None, "quantisation": "", "server": "", "first_token_ms": None, "pieces": None,
        "counts_tokens": False, "problem": None}
    try:
        entries = served(endpoint)
        seen["models"] = [entry["id"] for entry in entries]
        seen["model"] = chosen(seen["models"], model)
        entry = next((entry for entry in entries if entry["id"] == seen["model"]), {})
        seen["max_context_tokens"], seen["quantisation"] = limits_of(entry)
        seen["server"] = version_of(endpoint)
        seen["first_token_ms"], seen["pieces"], seen["counts_tokens"] = streamed(endpoint, seen["model"], now)
    except EndpointProblem as problem:
        seen["problem"] = {"id": problem.id, "message": problem.message}
    return seen


def served(endpoint: Endpoint) -> list[dict[str, t.Any]]:
    """Return the entries of ``/v1/models``, none where the server has no such list."""
    status, text = exchange(endpoint, "GET", "/v1/models")
    if status == 404:
        return []
    refuse_status(endpoint, "/v1/models", status, text)
    document = as_document(text)
    entries = document.get("data") if isinstance(document, Mapping) else None
    if not isinstance(entries, list):
        raise EndpointProblem(
            "not_openai", f"{endpoint.url}/v1/models answers with {shown(text)}, which is no list of models: this is no OpenAI-compatible server")
    return [dict(entry) for entry in entries if isinstance(entry, Mapping) and isinstance(entry.get("id"), str)]


def chosen(models: list[str], model: str) -> str:
    """Return the model to ask."""
    if model and (model in models or not models):
        return model
    if model:
        raise EndpointProblem("model", f"the server does not serve {model}, it serves {', '.join(models)}: set inference_bench_model to one of them")
    if len(models) != 1:
        told = f"serves {', '.join(models)}" if models else "does not say which models it serves"
        raise EndpointProblem("model", f"the server {told}: set inference_bench_model to the one to measure")
    return models[0]


def limits_of(entry: Mapping[str, t.Any]) -> tuple[int | None, str]:
    """Return the context in tokens and the quantisation that a server states for a model; None and "" where it does not."""
    meta = entry["meta"] if isinstance(entry.get("meta"), Mapping) else {}
    context = next((value for value in (*(entry.get(field) for field in CONTEXT_FIELDS), meta.get(META_CONTEXT)) if whole(value)), None)
    return context, meta[META_QUANTISATION] if isinstance(meta.get(META_QUANTISATION), str) else ""


def version_of(endpoint: Endpoint) -> str:
    """Return what the server says of itself, such as ``vLLM 0.12.0``; "" where it says nothing."""
    for path, field, name in VERSION_PATHS:
        try:
            status, text = exchange(endpoint, "GET", path)
        except EndpointProblem:
            return ""
        document = as_document(text) if status == 200 else None
        if isinstance(document, Mapping) and isinstance(document.get(field), str) and document[field]:
            return f"{name} {document[field]}"
    return ""


def streamed(endpoint: Endpoint, model: str, now: Callable[[], float]) -> tuple[float, int, bool]:
    """Ask for one short answer as a stream; return the milliseconds to its first token, the number of pieces with text, and whether it counts tokens.

    :raises EndpointProblem: when it does not come whole
    """
    asked: dict[str, t.Any] = {**endpoint.extra, "model": model, "max_tokens": PROBE_TOKENS, "stream": True, "stream_options": {"include_usage": True}}
    asked |= {"messages": [{"role": "user", "content": PROBE_TEXT}]} if endpoint.kind == "chat" else {"prompt": PROBE_TEXT}
    began = now()
    connection = connect(endpoint)
    try:
        response = ask(endpoint, connection, "POST", endpoint.path, asked)
        if response.status != 200:
            refuse_status(endpoint, endpoint.path, response.status, text_of(response))
        kind = response.headers.get_content_type()
        if kind != "text/event-stream":
            name = "not_streamed" if kind == "application/json" else "not_openai"
            raise EndpointProblem(name, f"{endpoint.url}{endpoint.path} answers with {kind} where a stream (text/event-stream) was asked for")
        return read_stream(response, began, endpoint, now)
    except (TimeoutError, socket.timeout) as error:
        raise EndpointProblem("silent", f"{endpoint.url} took the request and sent nothing for {endpoint.stall_seconds:g} s") from error
    except (http.client.HTTPException, OSError) as error:
        raise EndpointProblem("truncated", f"{endpoint.url} closed the connection before it had answered ({told(error)})") from error
    finally:
        connection.close()


def read_stream(lines: t.Any, began: float, endpoint: Endpoint, now: Callable[[], float]) -> tuple[float, int, bool]:
    """Read server-sent events to their end; ``lines`` has ``readline``. See ``streamed``."""
    first, pieces, finished, counts = None, 0, False, False
    while True:
        try:
            line = lines.readline(LINE_LIMIT)
        except (TimeoutError, socket.timeout) as error:
            raise EndpointProblem("stalled", f"the stream stopped after {pieces} pieces: nothing came for {endpoint.stall_seconds:g} s") from error
        except (http.client.HTTPException, OSError) as error:
            raise EndpointProblem("truncated", f"the stream broke off after {pieces} pieces ({told(error)})") from error
        if not line:
            break
        text = line.decode("utf-8", "replace").strip()
        if text == "data: [DONE]":
            finished = True
            break
        event = as_document(text[5:]) if text.startswith("data:") else None
        if isinstance(event, Mapping):
            if event.get("error"):
                raise EndpointProblem("http", f"the stream carries an error after {pieces} pieces: {shown(json.dumps(event['error']))}")
            has_text, ends = piece(event)
            pieces += has_text
            finished, counts = finished or ends, counts or isinstance(event.get("usage"), Mapping)
            if has_text and first is None:
                first = 1000 * (now() - began)
        if now() - began > endpoint.request_seconds:
            raise EndpointProblem("stalled", f"{pieces} pieces came in {endpoint.request_seconds:g} s, and the answer of {PROBE_TOKENS} tokens was not done")
    if not finished:
        raise EndpointProblem("truncated", f"the stream ended after {pieces} pieces without finish_reason and without [DONE]")
    if first is None:
        raise EndpointProblem("truncated", "the stream ended well and carried no text at all")
    return round(first, 1), pieces, counts


def piece(event: Mapping[str, t.Any]) -> tuple[bool, bool]:
    """Tell of one event of a stream whether it carries text (an answer's or its reasoning's), and whether it says that the answer is done."""
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    delta = choice.get("delta") if isinstance(choice.get("delta"), Mapping) else {}
    return any(bool(one) for one in (choice.get("text"), *(delta.get(key) for key in ("content", "reasoning_content", "reasoning", "tool_calls")))), bool(
        choice.get("finish_reason"))


def exchange(endpoint: Endpoint, method: str, path: str, body: t.Any = None) -> tuple[int, str]:
    """Return status and text of one plain request.

    :raises EndpointProblem: when no answer comes
    """
    connection = connect(endpoint)
    try:
        response = ask(endpoint, connection, method, path, body)
        return response.status, text_of(response)
    except (TimeoutError, socket.timeout) as error:
        raise EndpointProblem("silent", f"{endpoint.url} took the request for {path} and sent nothing for {endpoint.stall_seconds:g} s") from error
    except (http.client.HTTPException, OSError) as error:
        raise EndpointProblem("not_openai", f"{endpoint.url}{path} gives no HTTP answer ({told(error)})") from error
    finally:
        connection.close()


def connect(endpoint: Endpoint) -> http.client.HTTPConnection:
    """Return an open connection.

    :raises EndpointProblem: saying why there is none
    """
    parts = urllib.parse.urlsplit(endpoint.url)
    host, port = parts.hostname or "", parts.port
    place = f"{host}:{port or (443 if parts.scheme == 'https' else 80)}"
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        if not endpoint.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=endpoint.connect_seconds, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=endpoint.connect_seconds)
    try:
        connection.connect()
    except ConnectionRefusedError as error:
        raise EndpointProblem("refused", f"{place} refuses the connection: nothing listens there") from error
    except socket.gaierror as error:
        raise EndpointProblem("unresolved", f"the name {host} is not known here: {error.strerror}") from error
    except ssl.SSLError as error:
        raise EndpointProblem("tls", f"{place} does not speak TLS as expected: {told(error)}") from error
    except (TimeoutError, socket.timeout) as error:
        raise EndpointProblem(
            "unreachable", f"{place} did not answer within {endpoint.connect_seconds:g} s: a firewall drops it, or the machine is off") from error
    except OSError as error:
        raise EndpointProblem("unreachable", f"{place} cannot be reached: {told(error)}") from error
    connection.sock.settimeout(endpoint.stall_seconds)
    return connection


def ask(endpoint: Endpoint, connection: http.client.HTTPConnection, method: str, path: str, body: t.Any) -> http.client.HTTPResponse:
    """Send a request and return its answer, of which the head is read."""
    prefix = urllib.parse.urlsplit(endpoint.url).path
    headers = {"Accept": "application/json, text/event-stream"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    connection.request(method, prefix + path, None if body is None else json.dumps(body).encode(), headers)
    return connection.getresponse()


def refuse_status(endpoint: Endpoint, path: str, status: int, text: str) -> None:
    """Raise EndpointProblem for a status that is no success."""
    if status in (401, 403):
        raise EndpointProblem("unauthorized", f"{endpoint.url}{path} wants a key (HTTP {status}): set inference_bench_api_key")
    if status >= 400 or status < 200:
        raise EndpointProblem("http", f"{endpoint.url}{path} answers HTTP {status}: {shown(text)}")


def text_of(response: http.client.HTTPResponse) -> str:
    """Return the text of an answer."""
    return response.read(ANSWER_LIMIT).decode("utf-8", "replace")


def as_document(text: str) -> t.Any:
    """Return JSON, None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def whole(value: t.Any) -> bool:
    """Tell whether a value is a whole number above 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def shown(text: str) -> str:
    """Return the beginning of an answer on one line."""
    flat = " ".join(text.split())
    return (flat[:TOLD] + "…" if len(flat) > TOLD else flat) or "an empty answer"


def told(error: BaseException) -> str:
    """Return an error in words."""
    return str(error) or type(error).__name__
