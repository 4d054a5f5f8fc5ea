"""A TCP proxy whose links can go silent: still open, nothing comes through. New ones can be refused."""

import contextlib
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Stands between a worker and the server while the `with` block lasts."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._flowing = threading.Event()
        self._flowing.set()
        self._refusing = False
        self._closed = False
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        place = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{place}"))

    def __enter__(self) -> "Proxy":
        self._start(self._accept)
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left behind: a link that is accepted in this moment is closed by its own thread."""
        self._closed = True
        self._flowing.set()
        _shut(self._listener)  # this alone wakes the thread that accepts
        self._threads[0].join()
        self._listener.close()
        for end in self._sockets:  # the list is whole now
            _shut(end)
        for thread in self._threads[1:]:
            thread.join()
        for end in self._sockets:
            end.close()

    def silence(self, refuse: bool = False) -> None:
        """From now on nothing is forwarded; open links stay open, new ones are accepted and stay silent, or refused.

        PgBouncer refuses during an outage: only what was asked in its first moment is held back.
        """
        self._refusing = refuse
        self._flowing.clear()

    def speak(self) -> None:
        """Forward again; what was held back on old links is delivered late."""
        self._refusing = False
        self._flowing.set()

    def _accept(self) -> None:
        while not self._closed:
            with contextlib.suppress(OSError):
                near, _ = self._listener.accept()
                self._sockets.append(near)
                if self._refusing:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._sockets.append(far)
                self._start(self._pump, near, far)
                self._start(self._pump, far, near)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                target.sendall(data)
        _shut(source)
        _shut(target)

    def _start(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
