"""A web server in this process that sends the files of a folder, late or wrongly if told so."""

import contextlib
import html
import http.server
import pathlib
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator

# What to do instead of sending a file: None for nothing else, an HTTP status, 'cut' to close the connection in the
# middle of the file, 'whole' to disregard the range, or seconds to wait before.
Fault = int | str | float | None


class FolderServer(http.server.ThreadingHTTPServer):
    """The server.

    Attributes:
      folder: the folder.
      latency: seconds before each answer.
      lists: whether it sends a page of links for a folder.
      fault: returns the fault of an answer, for the method, the name of the file and how often it was asked for before.
      requests: method, name of the file and `Range` of each request.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: pathlib.Path, latency: float = 0.0, lists: bool = True) -> None:
        super().__init__(('127.0.0.1', 0), _Handler)
        self.folder, self.latency, self.lists = folder, latency, lists
        self.fault: Callable[[str, str, int], Fault] = lambda method, name, number: None
        self.requests: list[tuple[str, str, str | None]] = []
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f'http://127.0.0.1:{self.server_port}'


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def _answer(self, has_body: bool) -> None:
        server = self.server
        assert isinstance(server, FolderServer)
        name = urllib.parse.unquote(self.path).strip('/')
        given = self.headers.get('Range')
        with server.lock:
            number = sum(request[:2] == (self.command, name) for request in server.requests)
            server.requests.append((self.command, name, given))
        fault = server.fault(self.command, name, number)
        time.sleep(server.latency + (fault if isinstance(fault, float) else 0))
        path = server.folder / name
        if isinstance(fault, int):
            self._send(fault, b'', has_body)
        elif path.is_dir() and server.lists:
            links = ''.join(f'<a href="{html.escape(each.name)}">{each.name}</a>\n' for each in sorted(path.iterdir()))
            self._send(200, links.encode(), has_body, {'Content-Type': 'text/html'})
        elif not path.is_file():
            self._send(404, b'', has_body)
        else:
            self._send_file(path, given if fault != 'whole' else None, has_body, fault == 'cut')

    def _send_file(self, path: pathlib.Path, given: str | None, has_body: bool, is_cut: bool) -> None:
        headers = {'Last-Modified': self.date_time_string(path.stat().st_mtime), 'Content-Type': 'application/x-any'}
        size = path.stat().st_size
        match = re.fullmatch(r'bytes=(\d+)-(\d+)', given or '')
        start, end = (int(match[1]), min(int(match[2]) + 1, size)) if match else (0, size)
        with open(path, 'rb') as file:
            file.seek(start)
            content = file.read(end - start)
        if match:
            headers['Content-Range'] = f'bytes {start}-{end - 1}/{size}'
        self._send(206 if match else 200, content, has_body, headers, is_cut)

    def _send(
        self, status: int, content: bytes, has_body: bool, headers: dict[str, str] | None = None, is_cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in {'Content-Length': str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if is_cut:
            self.close_connection = True
        if has_body:
            with contextlib.suppress(OSError):
                self.wfile.write(content[: len(content) // 2] if is_cut else content)

    def log_message(self, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def serving(folder: pathlib.Path, latency: float = 0.0, lists: bool = True) -> Iterator[FolderServer]:
    """Runs a server."""
    with FolderServer(folder, latency, lists) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
