import http.client
import json
import math
import os
import threading

import pytest

from tests.helpers.browser import chromium
from tpack.callbacks.monitors.run_status import write_run
from tpack.cli.main import main
from tpack.cli.runs.server import RunFolders, Table, served, thinned
from tpack.errors import ConfigError

TOLD = {"state": "finished", "versions": {"tpack": "1"}, "config": {}, "progress": {"epoch": 2, "max_epoch": 2}}
HOSTILE = "<img src=x onerror=document.title='bad'>"


def write(directory, costs, **more):
    directory.mkdir(parents=True, exist_ok=True)
    rows = [{"epoch_num": at, "global_step": 5 * at, "cost": cost, **more} for at, cost in enumerate(costs, 1)]
    (directory / "stats.json").write_text(json.dumps(rows))
    return directory


@pytest.fixture
def folder(tmp_path):
    """Two runs, and one whose file is damaged, below a folder with other files."""
    write_run(str(write(tmp_path / "a", [2.0, None, 1.0], accuracy=0.5)), {**TOLD, "config": {"global_batch": 32}})
    write_run(
        str(write(tmp_path / "deep" / HOSTILE.replace("/", ""), [4.0, 3.0])), {**TOLD, "config": {"global_batch": 64}}
    )
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "stats.json").write_text("[{")
    (tmp_path / "secret.txt").write_text("the secret")
    (tmp_path / "a" / "log.log").write_text(f"[11-28 09:00:01 @x.py:1] WRN {HOSTILE}\n")
    for at, name in enumerate(("a", f"deep/{HOSTILE}", "damaged")):
        for path in (tmp_path / name).glob("*.json"):
            os.utime(path, (1e9 - at, 1e9 - at))
    return tmp_path


@pytest.fixture
def server(folder):
    with served(RunFolders([("runs", str(folder))]), 0, 0.1) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path, host="localhost", method="GET"):
    """Return the status, the headers and the content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, content


def numbers(server):
    return {run["label"]: run["id"] for run in json.loads(ask(server, "/runs")[2])["runs"]}


def test_the_list_has_all_runs_below_the_folder_with_their_last_values(server):
    runs = {run["label"]: run for run in json.loads(ask(server, "/runs")[2])["runs"]}
    assert set(runs) == {"a", f"deep/{HOSTILE}", "damaged"}
    assert (runs["a"]["state"], runs["a"]["last"]) == ("finished", {"cost": 1.0, "accuracy": 0.5})
    assert runs["a"]["progress"] == {"epoch": 2, "max_epoch": 2}


def test_curves_names_and_settings_of_chosen_runs(server):
    ids = numbers(server)
    a, other = ids["a"], ids[f"deep/{HOSTILE}"]
    told = json.loads(ask(server, f"/curves?runs={a},{other}&stat=cost&stat=none")[2])
    assert told[str(a)]["curves"] == {"cost": [[1, 5, 2.0], [2, 10, None], [3, 15, 1.0]], "none": []}
    assert told[str(other)]["curves"]["cost"] == [[1, 5, 4.0], [2, 10, 3.0]]
    told = json.loads(ask(server, f"/curves?runs={a}&stat=cost&axis=step&from=14&to=20")[2])
    assert told[str(a)]["curves"]["cost"] == [[2, 10, None], [3, 15, 1.0]]
    assert json.loads(ask(server, f"/names?runs={a}")[2])[str(a)] == {"names": ["cost", "accuracy"]}
    settings = json.loads(ask(server, f"/settings?runs={a}")[2])[str(a)]
    assert (settings["config"], settings["warnings"]) == ({"global_batch": "32"}, [f"11-28 09:00:01 {HOSTILE}"])
    damaged = ids["damaged"]
    assert "is not valid JSON" in json.loads(ask(server, f"/names?runs={damaged}")[2])[str(damaged)]["error"]


def test_a_file_is_read_again_when_it_has_changed(server, folder):
    number = numbers(server)["a"]
    before = server.folders.table(number)
    assert server.folders.table(number) is before
    write(folder / "a", [2.0, 1.5, 1.0, 0.5])
    told = json.loads(ask(server, f"/curves?runs={number}&stat=cost")[2])
    assert told[str(number)]["curves"]["cost"][-1] == [4, 20, 0.5]
    assert numbers(server)["a"] == number


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/curves?runs=../../etc", 400, "runs got '../../etc': expected numbers of runs with commas between"),
        ("/curves?runs=7", 400, "runs got 7: expected numbers of runs, which /runs lists"),
        ("/curves?runs=0&axis=time", 400, "axis got 'time': expected epoch or step"),
        ("/curves?runs=0&from=x", 400, "from got 'x': expected a number"),
        ("/names?" + "a=1&" * 1001, 400, "Max number of fields exceeded"),
        ("http://[", 400, "Invalid IPv6 URL"),
        ("/secret.txt", 404, "expected /, /runs, /names, /curves or /settings"),
        ("/../../../etc/passwd", 404, "expected /, /runs"),
        ("/%2e%2e/secret.txt", 404, "expected /, /runs"),
    ],
)
def test_no_path_reaches_a_file_and_wrong_questions_are_refused_by_name(server, path, status, text):
    numbers(server)
    found = ask(server, path)
    assert (found[0], text in found[2]) == (status, True), found[2]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_page_of_another_site_whose_name_leads_here_gets_nothing(server, host):
    status, _, text = ask(server, "/runs", host)
    assert (status, "expected 127.0.0.1 or localhost" in text) == (421, True)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_there_is_nothing_but_reading(server, method):
    assert ask(server, "/runs", method=method)[0] == 501


def test_the_server_answers_this_machine_alone_and_forbids_foreign_scripts(server):
    assert server.server_address[0] == "127.0.0.1"
    status, headers, text = ask(server, "/", "127.0.0.1:9")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    nonce = policy.partition("script-src 'nonce-")[2].partition("'")[0]
    assert f'<script nonce="{nonce}">' in text
    assert "default-src 'none'" in policy
    assert HOSTILE not in text
    assert (headers["X-Content-Type-Options"], headers["X-Frame-Options"]) == ("nosniff", "DENY")
    assert "Access-Control-Allow-Origin" not in headers


def test_a_long_curve_keeps_its_ends_its_extremes_and_its_gaps():
    values = [math.sin(at / 300) for at in range(10_000)]
    values[1234], values[5678], values[777] = 9.0, -9.0, math.nan
    kept = thinned(values, 90)
    assert len(kept) <= 90
    assert {0, 1234, 5678, 777, 9999} <= set(kept)
    assert kept == sorted(kept)
    assert thinned(values[:90], 90) == list(range(90))


def test_texts_and_missing_positions_are_left_out_of_curves():
    table = Table([{"cost": 1, "note": "text"}, {"epoch_num": 2, "cost": math.inf}])
    assert table.points("cost", 10, "epoch", (-math.inf, math.inf)) == [[None, None, 1.0], [2.0, None, None]]
    assert table.names == ["cost"]


def test_odd_files_are_told_beside_their_run_and_hide_no_other(server, folder):
    for name, text in (("nested", "[" * 100_000), ("digits", f'[{{"cost": {"9" * 5000}}}]'), ("list", "[[1], 2]")):
        (folder / name).mkdir()
        (folder / name / "stats.json").write_text(text)
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe" / "stats.json")
    (folder / os.fsdecode(b"\xff")).mkdir()
    write(folder / os.fsdecode(b"\xff"), [1.0])
    runs = {run["label"]: run for run in json.loads(ask(server, "/runs")[2])["runs"]}
    assert len(runs) == 8
    assert "pipe" in runs["pipe"]["error"]
    ids = ",".join(str(run["id"]) for run in runs.values())
    told = json.loads(ask(server, f"/names?runs={ids}")[2])
    wrong = {label for label, run in runs.items() if "error" in told[str(run["id"])]}
    assert wrong == {"damaged", "nested", "digits", "list", "pipe"}


def test_wrong_options_are_refused_by_name(server, folder, capsys):
    with pytest.raises(ConfigError, match=rf"--port got {server.server_port}: expected a free port"):
        served(RunFolders([]), server.server_port, 1.0).__enter__()
    for arguments, text in (
        (["--port", "5"], "--port got 5: expected a port from 0 to 65535, and --serve"),
        (["--serve", "--port", "65536"], "--port got 65536: expected a port from 0 to 65535, and --serve"),
        (["--serve", "--once"], "--serve got --once: expected one of them"),
    ):
        assert main(["watch", *arguments, str(folder)]) == 2
        assert text in capsys.readouterr().err


def test_the_page_in_a_browser(server, folder):
    with chromium() as browser:
        browser.resize(1280)
        browser.open(f"http://localhost:{server.server_port}/")
        browser.wait_for("document.body.dataset.state === 'shown'")
        assert browser.run("return [...document.querySelectorAll('#runs b')].map(each => each.textContent)")[0] == "a"
        assert browser.run("return document.title") == "tpack runs"
        assert browser.run("return [...document.querySelectorAll('.panel b')].map(each => each.textContent)") == [
            "accuracy",
            "cost",
        ]
        # The gap of a value that is not finite, and the second run.
        paths = "document.querySelectorAll('svg[aria-label=cost] path')"
        assert browser.run(f"return [...{paths}].map(path => path.getAttribute('d').match(/M/g).length)") == [2, 1]
        assert "is not valid JSON" in browser.run("return document.getElementById('error').textContent")
        assert browser.run("return document.querySelector('.differs th').textContent") == "global batch"
        assert HOSTILE in browser.run("return document.querySelector('pre').textContent")
        browser.run("document.querySelector('#runs .chosen input').click()")
        browser.wait_for(f"{paths}.length === 1")
        write(folder / "b", [1.0] * 50, only=1.0)
        browser.wait_for("document.querySelectorAll('#runs li').length === 4")
        browser.run("byId('find').value = 'B'; byId('find').dispatchEvent(new Event('input')); byId('all').click()")
        browser.wait_for("document.querySelectorAll('.panel').length === 2")
        for width in (1280, 420):
            browser.resize(width)
            wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert browser.run(wide) == 0, width
            assert browser.run("return document.querySelector('.panel').getBoundingClientRect().width") > 300
        assert browser.errors() == []
