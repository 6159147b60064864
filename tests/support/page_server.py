"""A running service for browser tests: uvicorn in a thread, on a free port, that can be stopped and started again."""

import socket
import threading
import time

import uvicorn

from tagwood.service.app import create_app
from tagwood.service.settings import ServiceSettings


class PageServer:
    """The service of a Tagger or model folder on this machine."""

    def __init__(self, tagger, settings=None):
        self.tagger = tagger
        self.settings = settings or ServiceSettings()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.start()

    def start(self):
        """Start and wait until it answers."""
        app = create_app(self.tagger, self.settings)
        config = uvicorn.Config(
            app, host="127.0.0.1", port=self.port, log_level="critical", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until = time.monotonic() + 20
        while not self._server.started:
            if time.monotonic() > until or not self._thread.is_alive():
                raise RuntimeError("the service did not start")
            time.sleep(0.02)

    def stop(self):
        """Stop: later connections are refused."""
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(10)
