"""The arithmetic of the published schedules, and of the errors of what was held out."""

import importlib
import json
import sys

import pytest

from tests.helpers.source import ROOT
from tpack.multi_worker.scaling.network import NetworkSpeed
from tpack.multi_worker.scaling.study import Workload


@pytest.fixture
def scaling(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("scaling")


@pytest.fixture
def held_out(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("scaling_held_out")


def test_published_runs_are_shares(scaling):
    (run,) = (each for each in scaling.PUBLISHED if each.name.startswith("tensorpack, 128 P100, 64"))
    # 1281167 / (128 * 64) is 156 steps of an epoch, 95 epochs in 83 minutes.
    assert run.share == pytest.approx((64 * 8 / 1612) / (4980 / (156 * 95)))
    assert run.step_secs == pytest.approx(64 * 8 / 1612)


def test_models_have_their_published_sizes(scaling):
    sizes = {name: Workload.of_shapes(shapes, 0.1).size_bytes / 4e6 for name, shapes in scaling.SHAPES.items()}
    assert sizes == pytest.approx(
        {"ResNet-50": 25.6, "ResNet-101": 44.5, "Inception-v3": 23.8, "VGG-16": 138.4}, abs=0.1
    )


def test_a_ring_moves_all_bytes_twice_and_waits_for_each_hop(scaling):
    work = Workload.of_shapes([[25_000_000]], 0.0)
    # 100 MB over 10 Gb/s, there and back, 15 of 16 parts; a buffer of each cycle, and one more hop than machines.
    secs = scaling.ring_secs(work, 16, 1, 10, hop_secs=1e-3)
    assert secs == pytest.approx(2 * 15 / 16 * 100e6 / 1.25e9 + 30e-3 + 100e6 * scaling.NETWORK.sum_secs, rel=1e-6)
    # Inside of a machine there is no link.
    assert scaling.ring_secs(work, 8, 8, 10) == pytest.approx(100e6 * scaling.NETWORK.sum_secs)


def test_a_ring_is_hidden_by_what_is_still_computed(scaling):
    work = Workload.of_shapes([[1000]] * 8, 0.3)
    assert len(scaling.buffers_of(work)) == scaling.CYCLES
    assert scaling.ring_secs(work, 16, 1, 10, hop_secs=1e-6) == pytest.approx(0.3, rel=1e-3)


def test_servers_move_all_bytes_once_each_way(scaling):
    work = Workload.of_shapes([[25_000_000]], 0.0)
    assert scaling.servers_secs(work, 32, 8, 20) == pytest.approx(2 * 100e6 / 2.5e9, rel=0.01)


def test_the_script_reports_what_was_published_and_more(scaling, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.json"
    monkeypatch.setattr(scaling, "DESIGNS", ("levels=2",))
    monkeypatch.setattr(sys, "argv", ["", "--out", str(out)])
    scaling.main()
    written = json.loads(out.read_text())
    assert len(written["published"]) == len(scaling.PUBLISHED) + len(scaling.BYTEPS)
    assert [row["V100s"] for row in written["more"]] == [64, 256, 1024]
    assert "Horovod, 512 Pascal, VGG-16" in capsys.readouterr().out


def row(design, measured, predicted, workers=8):
    place = {"workers": workers, "link": "loopback", "measured_link": None, "model": "layers", "design": design}
    return {**place, "measured_secs": measured, "predicted_secs": predicted, "alone_secs": 0.2, "limit": "messages"}


def test_errors_and_order_are_counted(held_out, capsys):
    rows = [row("a", 1.0, 1.1), row("b", 1.05, 1.0), row("c", 2.0, 1.0), row("a", 9.0, 9.0, workers=16)]
    # a and b differ by less than a tenth, c is to be the slowest of three, and 16 workers are another setting.
    assert held_out.order_of(rows) == (0, 2)
    assert [f"{held_out.error_of(each):+.2f}" for each in rows] == ["+0.10", "-0.05", "-0.50", "+0.00"]
    held_out.print_report(rows)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("all that was held out"))
    assert line.split()[5:] == ["4", "7.4%", "38.0%", "50.0%", "0", "of", "2", "8,", "loopback,", "layers,", "c"]


def test_gradients_are_ready_when_the_workers_make_them_so(held_out):
    work = held_out.workload_of("layers")
    # Twelve layers in eight sleeps, the last layer first.
    assert [each.name for each in work.gradients[:3]] == ["v11", "v10", "v9"]
    assert work.gradients[0].ready == work.gradients[1].ready == pytest.approx(1 / 3 + 2 / 3 / 8)
    assert work.gradients[-1].ready == pytest.approx(1.0)


def test_links_replace_the_measured_network(held_out):
    network = NetworkSpeed(1e-4, 1e9, 1e-4, 3e-4, 5e-10, 1.5e-10, cores=2)
    slow = {**row("levels=1", 1.0, 0.0, workers=4), "measured_link": {"bandwidth": 1.25e7, "latency_secs": 0.01}}
    fast = {**slow, "measured_link": None}
    assert held_out.predicted(fast, network)["limit"] != "bandwidth"
    found = held_out.predicted(slow, network)
    assert found["limit"] == "bandwidth"
    assert found["predicted_secs"] > 2 * 3 / 4 * 12.6e6 / 1.25e7
