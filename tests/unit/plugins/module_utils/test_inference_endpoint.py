# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look at an endpoint before the load: each way in which a real HTTP server can be broken gets its name."""

from __future__ import annotations

import io
import json
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import inference_endpoint as endpoint_look
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_endpoint import Endpoint, EndpointProblem, base_url, look
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.openai_server import CONTEXT, MODEL, SOMETIMES, VERSION, serving

QUICK = {"connect_seconds": 1.0, "stall_seconds": 0.4, "request_seconds": 5.0}

PROBLEMS = [
    ("http", "http", "answers HTTP 500: {\"error\": {\"message\": \"CUDA error: out of memory\""),
    ("silent", "silent", "took the request and sent nothing for 0.4 s"),
    ("stalled", "stalled", "the stream stopped after 3 pieces: nothing came for 0.4 s"),
    ("truncated", "truncated", "the stream ended after 3 pieces"),
    ("ended_early", "truncated", "ended after 3 pieces without finish_reason and without [DONE]"),
    ("stream_error", "http", "the stream carries an error after 3 pieces: {\"message\": \"EngineCore died\""),
    ("unauthorized", "unauthorized", "wants a key (HTTP 401): set inference_bench_api_key"),
    ("not_streamed", "not_streamed", "answers with application/json where a stream"),
    ("page", "not_openai", "<html><body>router</body></html>, which is no list of models"),
    ("no_text", "truncated", "ended well and carried no text at all"),
    ("two_models", "model", "serves tiny, other: set inference_bench_model"),
    ("no_list", "model", "does not say which models it serves"),
]


@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_a_good_endpoint_tells_what_it_serves(kind: str) -> None:
    with serving() as server:
        seen = look(Endpoint(server.url, kind, api_key="secret", **QUICK))
    assert seen["problem"] is None
    assert (seen["models"], seen["model"], seen["max_context_tokens"], seen["server"]) == ([MODEL], MODEL, CONTEXT, f"vLLM {VERSION}")
    assert (seen["pieces"], seen["counts_tokens"]) == (16, True)
    assert 0 < seen["first_token_ms"] < 1000


@pytest.mark.parametrize(("fault", "name", "text"), PROBLEMS, ids=[one[0] for one in PROBLEMS])
def test_each_fault_has_its_name(fault: str, name: str, text: str) -> None:
    with serving(fault) as server:
        problem = look(Endpoint(server.url, **QUICK))["problem"]
    assert problem["id"] == name, problem
    assert text in problem["message"]


@pytest.mark.parametrize("fault", SOMETIMES)
def test_what_some_requests_meet_the_look_does_not_see(fault: str) -> None:
    with serving(fault) as server:
        assert look(Endpoint(server.url, **QUICK))["problem"] is None


def test_a_model_that_is_not_served_is_named_with_those_that_are() -> None:
    with serving() as server:
        problem = look(Endpoint(server.url, **QUICK), "big")["problem"]
    assert problem == {"id": "model", "message": "the server does not serve big, it serves tiny: set inference_bench_model to one of them"}


def test_nobody_listening_is_refused() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert look(Endpoint(f"http://127.0.0.1:{port}", **QUICK))["problem"] == {
        "id": "refused", "message": f"127.0.0.1:{port} refuses the connection: nothing listens there"}


def test_an_unknown_name_is_unresolved() -> None:
    problem = look(Endpoint("http://no-such-host.invalid:8000", **QUICK))["problem"]
    assert (problem["id"], problem["message"].partition(" is")[0]) == ("unresolved", "the name no-such-host.invalid")


def test_plain_http_where_tls_was_asked_for() -> None:
    with serving() as server:
        assert look(Endpoint(server.url.replace("http:", "https:"), **QUICK))["problem"]["id"] == "tls"


@pytest.mark.parametrize(("answer", "text"), [
    (b"SSH-2.0-OpenSSH_9.6\r\n", "gives no HTTP answer"), (b"", "gives no HTTP answer"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "answers with half, which is no list of models")])
def test_what_is_no_http_server(answer: bytes, text: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        def serve() -> None:
            taken, _peer = listening.accept()
            with taken:
                taken.recv(65536)
                taken.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        problem = look(Endpoint(f"http://127.0.0.1:{listening.getsockname()[1]}", **QUICK))["problem"]
        thread.join()
    assert problem["id"] == "not_openai"
    assert text in problem["message"]


def test_an_answer_that_takes_for_ever_is_ended() -> None:
    with serving(token_seconds=0.3) as server:
        problem = look(Endpoint(server.url, connect_seconds=1, stall_seconds=1, request_seconds=0.5))["problem"]
    assert problem["id"] == "stalled"
    assert "pieces came in 0.5 s" in problem["message"]


@pytest.mark.parametrize(("url", "wanted"), [
    ("http://10.0.0.1:8000", "http://10.0.0.1:8000"), (" http://10.0.0.1:8000/v1/ ", "http://10.0.0.1:8000"),
    ("https://host/api/v1", "https://host/api"), ("http://[fd00::1]:8000/", "http://[fd00::1]:8000")])
def test_base_url(url: str, wanted: str) -> None:
    assert base_url(url) == wanted


@pytest.mark.parametrize(
    "url", ["", "10.0.0.1:8000", "ftp://host", "http://", "http://user:secret@host", "http://host:99999", "http://host?x=1", "http://host:x"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ValueError):
        base_url(url)


EVENTS = st.lists(st.one_of(
    st.binary(max_size=40), st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
            st.sampled_from(["choices", "delta", "content", "finish_reason", "error", "text"]), inner, max_size=3), max_leaves=8)
    .map(lambda document: b"data: " + json.dumps(document).encode()), st.just(b"data: [DONE]")), max_size=8)


@given(events=EVENTS)
def test_whatever_a_stream_holds_it_is_whole_or_has_a_problem(events: list[bytes]) -> None:
    stream = io.BytesIO(b"\n".join(events))
    try:
        first, pieces, _counts = endpoint_look.read_stream(stream, 0.0, Endpoint("http://host"), lambda: 1.0)
    except EndpointProblem as problem:
        assert problem.id in ("truncated", "http")
    else:
        assert (first, pieces > 0) == (1000.0, True)
