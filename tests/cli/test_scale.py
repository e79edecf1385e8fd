import json

import pytest

from tpack.cli.main import main
from tpack.cli.scale import STANDARD
from tpack.multi_worker.scaling.network import NetworkSpeed

SMALL = ["scale", "--shapes", "2000x1000,1000,1000x500", "--step-secs", "0.05"]


@pytest.fixture
def network(tmp_path):
    path = str(tmp_path / "network.json")
    NetworkSpeed(*STANDARD, cores=4).write(path)
    return path


def test_designs_are_compared_in_a_table_a_picture_and_a_file(tmp_path, network, capsys):
    out, figures = tmp_path / "scale.png", tmp_path / "scale.json"
    arguments = ["--network", network, "--workers", "4", "1024", "--designs", "levels=1", "levels=2", "sharded"]
    assert main([*SMALL, *arguments, "--jitter-secs", "0.001", "--out", str(out), "--json", str(figures)]) == 0
    text = capsys.readouterr().out
    assert "3 gradients, 10.0 MB, ready at equal distances in the last two thirds; a step 50.0 ms" in text
    assert f"(as {network} says)" in text
    assert out.read_bytes().startswith(b"\x89PNG")
    found = {(each["design"], each["workers"]): each for each in json.loads(figures.read_text())}
    # Three variables cannot be dealt out to four workers.
    assert set(found) == {(design, count) for design in ("levels=1", "levels=2") for count in (4, 1024)}
    assert found["levels=1", 1024]["limit"] == "messages"
    assert found["levels=2", 1024]["step_secs"] < found["levels=1", 1024]["step_secs"]
    best = next(line for line in text.splitlines() if line.split()[:2] == ["1024", "levels=2"])
    assert f"{found['levels=2', 1024]['step_secs'] * 1e3:.1f}" in best


def test_a_trace_says_what_is_computed_and_options_replace_it(tmp_path, network, capsys):
    trace = tmp_path / "profile-10-15.gradients.json"
    gradients = [{"name": "w", "shape": [1000, 1000], "dtype": "float32", "ready": 0.5, "sparse": False}]
    trace.write_text(json.dumps({"step_secs": 0.2, "jitter_secs": 0.01, "gradients": gradients}))
    arguments = ["scale", "--trace", str(trace), "--network", network, "--workers", "2", "--designs", "replicated"]
    assert main(arguments) == 0
    assert f"as {trace} has them; a step 200.0 ms, deviation 10.0 ms" in capsys.readouterr().out
    assert main([*arguments, "--step-secs", "0.4", "--jitter-secs", "0", "--cores", "16", "--per-machine", "2"]) == 0
    text = capsys.readouterr().out
    assert "a step 400.0 ms, deviation 0.0 ms" in text
    assert "2 worker(s) share a machine of 16 cores" in text


def test_slower_links_take_longer(network, capsys):
    arguments = [*SMALL, "--network", network, "--workers", "16", "--designs", "levels=1"]
    secs = []
    for link in ([], ["--gigabits", "1"], ["--gigabits", "1", "--delay-ms", "20"]):
        assert main([*arguments, *link]) == 0
        best = capsys.readouterr().out.splitlines()[-1].split()
        assert best[:2] == ["16", "levels=1"]
        secs.append(float(best[2]))
    assert secs == sorted(secs)
    assert secs[0] < secs[1] < secs[2] - 20


def test_numbers_are_assumed_where_nothing_was_measured(capsys):
    assert main([*SMALL, "--workers", "2", "--designs", "replicated"]) == 0
    assert "assumed: use tpack cluster check --json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scale"], "--step-secs got nothing"),
        ([*SMALL, "--designs", "int9"], "Design.parse got text='int9'"),
        ([*SMALL, "--out", "scale.bmp"], "--out got 'scale.bmp'"),
        ([*SMALL, "--network", "nothing.json"], "expected a JSON file"),
        ([*SMALL, "--designs", "sharded", "--workers", "64"], "--designs got ['sharded']: expected one that"),
        ([*SMALL, "--workers", "0"], "workers"),
    ],
)
def test_what_cannot_be_simulated_is_an_error(arguments, words, capsys):
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
