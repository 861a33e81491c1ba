"""A web server in this process that sends files as told: whole, in part, or wrongly."""

import contextlib
import dataclasses
import http.server
import re
import threading


@dataclasses.dataclass
class Page:
    """What the server sends for one path.

    Attributes:
      body: the file.
      takes_ranges: whether it sends parts.
      cut_after: numbers of bytes after which it closes the connection, one for each of the first answers.
      announced: Content-Length, if it lies; '' for none.
      status: of the answer; the first answers of a list.
      headers: further ones.
      validator: the ETag; '' for none.
      requests: the headers of all requests.
    """

    body: bytes = b''
    takes_ranges: bool = True
    cut_after: tuple[int, ...] = ()
    announced: str | None = None
    status: tuple[int, ...] = ()
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    validator: str = '"one"'
    requests: list = dataclasses.field(default_factory=list)


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = self.server.pages.get(self.path)
        if page is None:
            self.send_error(404)
            return
        number = len(page.requests)
        page.requests.append(dict(self.headers))
        status = page.status[number] if number < len(page.status) else 200
        wanted = re.fullmatch(r'bytes=(\d+)-', self.headers.get('Range', ''))
        body, start = page.body, 0
        if status == 200 and wanted and page.takes_ranges and self.headers.get('If-Range') == page.validator:
            start = int(wanted[1])
            if start >= len(body):
                self.send_error(416)
                return
            status = 206
        self.send_response(status)
        for name, value in page.headers.items():
            self.send_header(name, value)
        if page.validator:
            self.send_header('ETag', page.validator)
        if status == 206:
            self.send_header('Content-Range', f'bytes {start}-{len(body) - 1}/{page.announced or len(body)}')
        length = str(len(body) - start) if page.announced is None or status == 206 else page.announced
        if length:
            self.send_header('Content-Length', length)
        self.end_headers()
        end = start + page.cut_after[number] if number < len(page.cut_after) else len(body)
        with contextlib.suppress(OSError):
            self.wfile.write(body[start:end])

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving(pages):
    """Runs a server; gives the address of its folder. `pages` are by path, such as '/file.tar.gz'."""
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Handler) as server:
        server.pages = pages
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f'http://127.0.0.1:{server.server_port}'
        finally:
            server.shutdown()
            thread.join()
