"""The browser fixture itself: a page of this machine, at the size that was asked for."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PAGE = b"""<!doctype html><title>key</title><h1>Grade 2</h1>
<script>document.title += ` ${innerWidth}x${innerHeight}`</script>"""


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("chromium", [(1280, 900), (390, 844)], indirect=True)
def test_a_page_of_this_machine_at_the_asked_size(
    chromium: Chrome, address: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    width, height = request.node.callspec.params["chromium"]
    chromium.get(address)
    assert chromium.title == f"key {width}x{height}"
    picture = tmp_path / "page.png"
    assert chromium.save_screenshot(str(picture))
    header = picture.read_bytes()[:24]
    assert header[1:4] == b"PNG"
    assert (int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")) == (width, height)
