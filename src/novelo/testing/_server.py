"""A strict provider behind HTTP on this machine, so that real client libraries can be tested against it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from novelo.testing import _wire
from novelo.testing._refusals import Refusal, Refused, failed

if TYPE_CHECKING:
    from novelo.testing.strict import Call, StrictProvider

MAX_BODY = 64 * 2**20  # bytes
BAD_UTF8 = b"\xff\xfe"


class _Gone(Exception):
    """The connection is to be closed without another word."""


@contextmanager
def serving(provider: StrictProvider) -> Iterator[str]:
    """Run a server for the provider; gives its address. At the end hanging calls are let go."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.provider = provider
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        provider.release()
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    provider: StrictProvider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is written to the terminal."""

    def do_GET(self) -> None:
        """The list of models."""
        model = {"id": self.server.provider.model, "object": "model", "created": 0, "owned_by": "novelo"}
        self._json(200, {"object": "list", "data": [model]})

    def do_POST(self) -> None:
        """One call."""
        provider = self.server.provider
        form = "anthropic" if self.path.split("?")[0].endswith("/messages") else provider.dialect
        try:
            body = json.loads(self.rfile.read(min(int(self.headers.get("content-length", 0)), MAX_BODY)))
            self._call(provider, body, form)
        except Refused as refused:
            self._json(refused.status_code, refused.body)
        except (_Gone, BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._json(400, Refusal(f"The body of the request is no such call: {type(error).__name__}").body(form))

    def _call(self, provider: StrictProvider, body: Mapping[str, Any], form: str) -> None:
        """Judge, fail if it is to fail, and answer."""
        native = form == "anthropic" and self.path.split("?")[0].endswith("/messages")
        if native and not isinstance(body.get("max_tokens"), int):
            raise Refused(Refusal("max_tokens: Field required"), form)
        request = _wire.from_anthropic(body) if native else _wire.from_chat(body)
        call = provider.begin(request, body if native else None)
        form = "anthropic" if native else "openai"
        fault = call.fault
        if fault == "timeout":
            provider.pause(provider.hang_s)
            fault = 408
        if isinstance(fault, int):
            raise Refused(failed(provider.dialect, fault), provider.dialect)
        if fault == "disconnect":
            raise _Gone
        if body.get("stream"):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            self._stream(provider, call, _wire.events(form, provider, call, usage))
        else:
            self._whole(call, _wire.whole(form, provider, call))

    def _whole(self, call: Call, answer: Mapping[str, Any]) -> None:
        """An answer in one piece."""
        written = json.dumps({"unexpected": True} if call.fault == "wrong json" else answer).encode()
        if call.fault == "bad utf-8":
            written = written.replace(b"\\udcff\\udcfe", BAD_UTF8)
        size = len(written)
        if call.fault == "bad json" or _wire.cut_after(call.fault) is not None:
            written = written[: size // 2]
            size = len(written) if call.fault == "bad json" else size
        self._head(200, "application/json", {"content-length": str(size)})
        self.wfile.write(written)
        if len(written) < size:
            raise _Gone

    def _stream(self, provider: StrictProvider, call: Call, events: Iterable[_wire.Event]) -> None:
        """An answer as server-sent events, each in a chunk of HTTP of its own, so that a cut is seen as one."""
        cut = _wire.cut_after(call.fault)
        self._head(200, "text/event-stream", {"transfer-encoding": "chunked", "cache-control": "no-cache"})
        pieces = 0
        try:
            for event in events:
                if event.piece:
                    if pieces == cut:
                        raise _Gone
                    pieces += 1
                    provider.pause(provider.piece_s)
                self._chunk(_faulty(event.written(), call.fault))
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            provider.left += 1
            raise

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _json(self, status: int, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        self._head(status, "application/json", {"content-length": str(len(data))})
        self.wfile.write(data)

    def _head(self, status: int, kind: str, more: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("x-request-id", f"req_{len(self.server.provider.requests)}")
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()


def _faulty(event: bytes, fault: Any) -> bytes:
    """An event as a fault leaves it."""
    if fault == "bad utf-8":
        return event.replace(b"\\udcff\\udcfe", BAD_UTF8)
    if fault == "bad json":
        return event[: len(event) // 2] + b"\n\n"
    if fault == "wrong json" and event.startswith((b"data: {", b"event:")):
        return b'data: {"unexpected": true}\n\n'
    return event
