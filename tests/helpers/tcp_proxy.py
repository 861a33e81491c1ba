"""A TCP proxy on the loopback interface that can stop to forward, as a network that has failed."""

import contextlib
import socket
import threading


class Proxy:
    """Forwards connections to an address; `forwards` is an event that stops all of them while it is not set."""

    def __init__(self, target):
        host, _, port = target.rpartition(':')
        self._target = host, int(port)
        self._listener = socket.create_server(('localhost', 0))
        self.address = f'localhost:{self._listener.getsockname()[1]}'
        self.forwards = threading.Event()
        self.forwards.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        """Accepts no more connections; those that are open stay."""
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                inside, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=[inside], daemon=True).start()

    def _connect(self, inside):
        self.forwards.wait()
        with inside, contextlib.suppress(OSError), socket.create_connection(self._target) as outside:
            back = threading.Thread(target=self._forward, args=[outside, inside], daemon=True)
            back.start()
            self._forward(inside, outside)
            back.join()

    def _forward(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.forwards.wait()
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
