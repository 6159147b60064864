"""Malicious requests: each gets the right 4xx, and the service stays healthy."""

import json
import socket
import threading
import time

import pytest
import uvicorn
from services import LIMITS

from tagwood.service.app import create_app
from tagwood.service.settings import ServiceSettings
from tagwood.service.worker import GuardedProtocol

TOKEN = "right-token-1234"


class Server:
    """A worker's server in a thread, reached by sockets only."""

    def __init__(self, tagger, settings, body_seconds=0.5):
        protocol = type("QuickProtocol", (GuardedProtocol,), {"header_seconds": 0.5, "body_seconds": body_seconds})
        config = uvicorn.Config(
            create_app(tagger, settings),
            http=protocol,
            ws="none",
            log_config=None,
            port=0,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def stop(self):
        self._server.should_exit = True
        self._thread.join()

    def send(self, *pieces, pause=0.0, length=None):
        """Send bytes and return the answer: status, headers, body; (0, {}, b"") if the connection was closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as sock:
            for piece in pieces:
                try:
                    sock.sendall(piece)
                except (BrokenPipeError, ConnectionResetError):
                    break  # the answer is there already
                time.sleep(pause)
            return read_answer(sock, length)

    def post(self, path, body, *headers):
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
        if not any(line.lower().startswith("content-type") for line in headers):
            lines.append("Content-Type: application/json")
        return self.send("\r\n".join([*lines, *headers]).encode("latin-1") + b"\r\n\r\n" + body)

    def get(self, path, *headers):
        lines = "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers])
        return self.send(lines.encode("latin-1") + b"\r\n\r\n")


def read_answer(sock, length=None):
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            chunk = sock.recv(65536)
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            return 0, {}, b""
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < (int(headers.get("content-length", 0)) if length is None else length):
        body += sock.recv(65536)
    return int(first.split()[1]), headers, body


@pytest.fixture(scope="module")
def server(tagger, tmp_path_factory):
    folder = tmp_path_factory.mktemp("journals")
    server = Server(
        tagger, ServiceSettings(limits=LIMITS, feedback=folder / "f.jsonl", hosts=("localhost", "127.0.0.1"))
    )
    yield server
    server.stop()


@pytest.fixture(scope="module")
def locked(tagger):
    server = Server(tagger, ServiceSettings(token=TOKEN, origins=("https://library.example",)))
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _healthy_afterwards(request):
    yield
    for name in ("server", "locked"):
        if name in request.fixturenames:
            status, _, body = request.getfixturevalue(name).get("/health")
            assert (status, json.loads(body)) == (200, {"status": "ok"})


def kind(answer):
    status, headers, body = answer
    assert headers["content-type"] == "application/problem+json"
    content = json.loads(body)
    assert content["status"] == status
    assert b"/src/" not in body
    assert b"Traceback" not in body
    assert b".py" not in body
    return status, content["type"].rpartition(":")[2]


BODIES = {
    "no JSON": (b"{", 400),
    "NaN": (b'{"texts": "x", "threshold": NaN}', 400),
    "infinity": (b'{"texts": "x", "threshold": 1e999}', 400),
    "lone surrogate": (b'{"texts": "\\ud800"}', 400),
    "broken UTF-8": (b'{"texts": "\xff\xfe"}', 400),
    "deep nesting": (b'{"texts": ' + b"[" * 9000 + b"]" * 9000 + b"}", 400),
    "nested objects": (b'{"a":' * 3000 + b"1" + b"}" * 3000, 400),
    "empty body": (b"", 400),
    "a list": (b"[]", 422),
    "null": (b"null", 422),
    "huge number": (b'{"texts": "x", "k": ' + b"9" * 4000 + b"}", 400),
    "negative k": (b'{"texts": "x", "k": -1}', 422),
    "too long text": (b'{"texts": "' + b"x" * 3000 + b'"}', 422),
    "too large body": (b'{"texts": "' + b"x" * 30_000 + b'"}', 413),
}


@pytest.mark.parametrize("name", BODIES)
def test_bad_bodies_are_refused(server, name):
    body, status = BODIES[name]
    assert kind(server.post("/v1/suggest", body))[0] == status


def test_a_hundred_megabytes_are_refused_and_not_kept(server):
    piece = b"x" * 1_000_000
    head = b"POST /v1/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = server.send(head + b"Content-Length: 100000000\r\n\r\n", *[piece] * 100)
    assert kind(answer)[0] in (413, 408)  # 408 where the machine is too slow for so much in half a second


def test_a_large_body_that_asks_first_is_refused_at_once(server):
    head = b"POST /v1/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = server.send(head + b"Content-Length: 100000000\r\nExpect: 100-continue\r\n\r\n")
    assert kind(answer) == (413, "body-too-large")


def test_an_endless_body_in_chunks_is_refused(server):
    head = b"POST /v1/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunk = b"%x\r\n%s\r\n" % (10_000, b" " * 10_000)
    answer = server.send(head + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 3, b"0\r\n\r\n")
    assert kind(answer) == (413, "body-too-large")


def test_a_slow_body_times_out(server):
    head = b"POST /v1/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = server.send(head + b"Content-Length: 100\r\n\r\n", b"{", pause=0.1)
    assert kind(answer) == (408, "timeout")


def test_slow_headers_close_the_connection(server):
    assert server.send(b"GET /health HTTP/1.1\r\n", b"X-A: 1\r\n", b"X-B: 2\r\n", pause=0.35)[0] == 0
    assert server.send(b"", pause=0.7)[0] == 0


def test_endless_headers_are_refused(server):
    many = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(40))
    assert kind(server.send(b"GET /v1/model HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n")) == (
        431,
        "headers-too-large",
    )
    endless = b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert server.send(endless)[0] in (431, 0)


def test_input_that_is_not_http_is_refused(server):
    assert server.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")[0] in (400, 0)
    assert kind(server.send(b"NONSENSE\r\n\r\n"))[0] == 400


PATHS = [
    "/v1/labels/..%2f..%2f..%2fetc%2fpasswd",
    "/v1/labels/../../../../etc/passwd",
    "/../../../../etc/passwd",
    "/static/..%2f..%2fapp.py",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/js/../../app.py",
    "//etc/passwd",
    "/v1/groups/..%2f..%2fmodel",
    "/v1/labels/0%00",
    "/v1/labels/-1",
    "/v1/labels/99999999999999999999",
    "/.git/config",
]


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leaves_the_folder_of_the_page(server, path):
    answer = server.get(path)
    assert kind(answer)[0] in (404, 422)
    assert b"root:" not in answer[2]


def test_headers_cannot_be_injected(server):
    _, headers, _ = server.get("/health", "X-Request-ID: good-id.1")
    assert headers["x-request-id"] == "good-id.1"
    for evil in ("a b", "x" * 65, "é", "a\tb", "<script>"):
        _, headers, _ = server.get("/health", f"X-Request-ID: {evil}")
        assert headers["x-request-id"] != evil
    _, headers, body = server.get("/v1/labels?q=a%0d%0aSet-Cookie:%20a=b")
    assert "set-cookie" not in headers
    assert json.loads(body)["labels"] is not None


def test_other_kinds_of_bodies_are_refused(server):
    body = b'{"texts": "oak"}'
    assert kind(server.post("/v1/suggest", body, "Content-Type: text/plain")) == (415, "unsupported-type")
    assert kind(server.post("/v1/suggest", body, "Content-Encoding: gzip")) == (415, "unsupported-type")
    assert server.post("/v1/suggest", body, "Content-Type: application/json; charset=utf-8")[0] == 200


def test_other_methods_are_refused_with_those_allowed(server):
    status, headers, _ = server.send(b"DELETE /v1/suggest HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (status, headers["allow"]) == (405, "POST")
    assert server.send(b"TRACE /v1/labels HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] == 405


def test_foreign_host_names_are_refused(server):
    answer = server.send(b"GET /v1/model HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    assert kind(answer) == (421, "forbidden-host")
    assert server.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n")[0] == 200


@pytest.mark.parametrize("order", [("localhost", "evil.example"), ("evil.example", "localhost"), ("localhost",) * 2])
def test_two_host_headers_are_refused(server, order):
    lines = "".join(f"Host: {name}\r\n" for name in order)
    answer = server.send(f"GET /v1/model HTTP/1.1\r\n{lines}\r\n".encode())
    assert kind(answer) == (400, "ambiguous-host")


@pytest.mark.parametrize("path", ["/health", "/ready", "/v1/model", "/metrics"])
def test_head_is_get_without_a_body(server, path):
    head = server.send(f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(), length=0)
    assert head[0] == 200
    assert head[2] == b""


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Authorization: Bearer wrong",
        f"Authorization: Basic {TOKEN}",
        f"Authorization: {TOKEN}",
        "Authorization: Bearer",
        f"Authorization: Bearer {TOKEN}x",
        "Authorization: Bearer \xff\xfe",
    ],
)
def test_wrong_tokens_are_refused(locked, given):
    answer = locked.get("/v1/model", *([given] if given else []))
    assert kind(answer) == (401, "unauthorized")
    assert answer[1]["www-authenticate"].startswith("Bearer")
    assert kind(locked.get("/metrics", *([given] if given else [])))[0] == 401


def test_the_right_token_opens_and_health_needs_none(locked):
    assert locked.get("/v1/model", f"Authorization: Bearer {TOKEN}")[0] == 200
    assert locked.get("/v1/model", f"authorization: bearer {TOKEN}")[0] == 200
    assert locked.get("/health")[0] == 200
    assert locked.get("/ready")[0] == 200


def test_only_listed_origins_are_allowed_by_cors(locked):
    _, headers, _ = locked.get("/health", "Origin: https://library.example")
    assert headers["access-control-allow-origin"] == "https://library.example"
    _, headers, _ = locked.get("/health", "Origin: https://evil.example")
    assert "access-control-allow-origin" not in headers
    asked = b"OPTIONS /v1/suggest HTTP/1.1\r\nHost: localhost\r\nOrigin: https://library.example\r\n"
    status, headers, _ = locked.send(asked + b"Access-Control-Request-Method: POST\r\n\r\n")
    assert status == 200
    assert "Authorization" in headers["access-control-allow-headers"]


def test_every_answer_has_safe_headers(server):
    for path in ("/", "/v1/model", "/nothing", "/v1/labels/x"):
        _, headers, _ = server.get(path)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_too_many_requests_at_once_are_refused(tagger):
    server = Server(tagger, ServiceSettings(limits=LIMITS.__class__(concurrent=2, body_seconds=0.5)))
    try:
        head = b"POST /v1/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += b"Content-Length: 9\r\n\r\n"
        waiting = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
        for sock in waiting:
            sock.sendall(head)
        time.sleep(0.1)
        answer = server.get("/v1/labels")
        assert kind(answer) == (429, "too-many-requests")
        assert answer[1]["retry-after"] == "1"
        assert server.get("/health")[0] == 200
        for sock in waiting:
            sock.close()
        time.sleep(0.2)
        assert server.get("/v1/labels")[0] == 200
    finally:
        server.stop()


def test_slow_bodies_leave_half_of_the_requests_to_others(tagger):
    limits = LIMITS.__class__(concurrent=8, body_seconds=4)
    server = Server(tagger, ServiceSettings(limits=limits), body_seconds=4)
    head = (
        b"POST /v1/suggest HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n"
    )
    try:
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
        for sock in slow:
            sock.sendall(head)
        time.sleep(0.9)  # beyond the half second in which a body counts as quick
        assert server.get("/v1/labels")[0] == 200
        assert server.post("/v1/suggest", b'{"texts": "oak"}')[0] == 200
        assert server.send(head, b'{"texts": "oak"}', pause=0.05)[0] == 200  # in two pieces, as many clients do
        for sock in slow:
            sock.sendall(b'{"texts": "oak"}')
        answers = [read_answer(sock)[0] for sock in slow]
        assert sorted(answers) == [200] * 4 + [429] * 4
        assert server.send(head, b'{"texts": "oak"}', pause=0.7)[0] == 200
    finally:
        for sock in slow:
            sock.close()
        server.stop()
