"""Downloads are complete or leave nothing."""

import http.server
import os
import threading

import pytest

from tpack.errors import ConfigError, InputError
from tpack.utils.fs import download

CONTENT = b"0123456789" * 1000


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT: whole, without its length, or less than it announces."""

    def do_GET(self):  # noqa: N802
        self.server.requests.append(self.path)
        if self.path.startswith("/missing"):
            self.send_error(404)
            return
        self.send_response(200)
        if not self.path.startswith("/unknown"):
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:-1] if self.path.startswith("/short") else CONTENT)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as made:
        made.requests = []
        made.url = f"http://127.0.0.1:{made.server_port}"
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", ["whole", "unknown"])
def test_file_is_downloaded_once(server, tmp_path, kind):
    for _ in range(2):
        path = download(f"{server.url}/{kind}/a%20b.bin?x=1", tmp_path / "new", expect_size=len(CONTENT))
        assert path == str(tmp_path / "new" / "a b.bin")
    assert (tmp_path / "new" / "a b.bin").read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_file_may_have_another_name(server, tmp_path):
    assert download(f"{server.url}/whole/", tmp_path, "data.bin") == str(tmp_path / "data.bin")


@pytest.mark.parametrize(
    ("path", "size", "message"),
    [
        ("short/a", None, r"incompletely from .*: expected 10,000 bytes, and it has 9,999"),
        ("whole/a", 10, r"was downloaded from .*: expected 10 bytes, and it has 10,000"),
        ("missing/a", None, "cannot be downloaded: HTTP Error 404"),
    ],
)
def test_what_is_not_right_leaves_nothing(server, tmp_path, path, size, message):
    with pytest.raises(InputError, match=message):
        download(f"{server.url}/{path}", tmp_path, expect_size=size)
    assert os.listdir(tmp_path) == []


def test_file_of_another_size_is_left_alone(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"mine")
    with pytest.raises(InputError, match="is there already: expected 5 bytes, and it has 4"):
        download("http://127.0.0.1:1/a.bin", tmp_path, expect_size=5)
    assert download("http://127.0.0.1:1/a.bin", tmp_path) == str(tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == b"mine"


def test_files_of_this_machine_can_be_downloaded(tmp_path):
    (tmp_path / "source").write_bytes(CONTENT)
    path = download((tmp_path / "source").as_uri(), tmp_path / "copies")
    assert open(path, "rb").read() == CONTENT  # noqa: SIM115
    with pytest.raises(InputError, match="cannot be downloaded"):
        download((tmp_path / "none").as_uri(), tmp_path / "copies")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("data:text/plain,x", "url='data:text/plain,x': expected a URL"),
        ("http://a/", "expected a file name at its end"),
    ],
)
def test_other_urls_are_refused(tmp_path, url, message):
    with pytest.raises(ConfigError, match=message):
        download(url, tmp_path)


def test_name_in_a_url_that_leads_elsewhere_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"http://a/b/\.\. got name='\.\.': expected a relative name below it"):
        download("http://a/b/..", tmp_path)
