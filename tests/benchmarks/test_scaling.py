"""The arithmetic of the model: what it is fitted to, it finds again; what it predicts follows from what it is told."""

import importlib
import itertools
import json
import sys

import pytest

from tests.helpers.source import ROOT


@pytest.fixture
def scaling(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("scaling")


def test_traffic_is_that_of_a_reduce_scatter_and_an_all_gather(scaling):
    megabyte = 2**20
    assert scaling.traffic(megabyte, 1) == scaling.Traffic(0, 0.0, 0.0, 0)
    # One bucket: to three others a part, and to them a sum; three quarters of all bytes each time.
    assert scaling.traffic(megabyte, 4) == scaling.Traffic(6, 1.5 * megabyte, megabyte, 8)
    # Two workers hand each other everything, in one hop and in pieces of at most 8 MB, and both add all of it.
    assert scaling.traffic(64 * megabyte, 2) == scaling.Traffic(8, 64 * megabyte, 128 * megabyte, 8)
    assert scaling.traffic(65 * megabyte, 2, num_arrays=1) == scaling.Traffic(9, 65 * megabyte, 130 * megabyte, 1)
    assert scaling.traffic(megabyte, 4, 2).of_all(4) == scaling.Traffic(24, 6 * megabyte, 4 * megabyte, 8)


@pytest.mark.parametrize(
    "parts", [(1e-3, 2e-4, 1e-9, 3e-10, 1e-4), (0.0, 2e-4, 1e-9, 0.0, 1e-4), (1e-3, 0.0, 0.0, 0.0, 0.0)]
)
def test_a_fit_finds_the_parts_that_made_the_points(scaling, parts):
    model = scaling.ExchangeModel(*parts)
    ways = itertools.product((0.1e6, 1e7, 1e8), (2, 4), (1, 16))
    works = [scaling.traffic(size, workers, arrays).of_all(workers) for size, workers, arrays in ways]
    points = [(work, model.secs(work)) for work in works]
    found = scaling.fit_exchange(points)
    assert list(vars(found).values()) == pytest.approx(parts, rel=1e-6, abs=1e-15)
    assert scaling.relative_errors([(found.secs(work), secs) for work, secs in points])[1] < 1e-6


def test_a_fit_has_no_negative_part(scaling):
    # More messages take less time here, which no model of messages can say.
    works = [scaling.Traffic(messages, 1e6, 1e6, 1) for messages in (10, 20, 40)]
    found = scaling.fit_exchange(list(zip(works, (3.0, 2.0, 1.0), strict=True)))
    assert min(vars(found).values()) >= 0


def test_published_runs_are_steps(scaling):
    # 1281167 / (128 * 64) is 156 steps of an epoch, 95 epochs in 83 minutes.
    assert scaling.Published.of_run(128, 64, hours=1, minutes=23).step_secs == pytest.approx(4980 / (156 * 95))
    ring = scaling.RingModel(hop_secs=1e-4, overlap=0.3)
    machine = 64 * 8 / 1612
    assert ring.step_secs(8, 64) == machine
    assert ring.step_secs(16, 64) == machine
    assert ring.step_secs(1024, 64) == pytest.approx(machine + 2046e-4 - 0.3 * 2 / 3 * machine)
    made = [scaling.Published(gpus, 32, ring.step_secs(gpus, 32)) for gpus in (128, 256, 512)]
    assert scaling.fit_ring(made) == scaling.RingModel(pytest.approx(1e-4), pytest.approx(0.3))


def test_the_ring_is_within_a_tenth_of_what_is_published(scaling):
    ring = scaling.fit_ring(scaling.PUBLISHED)
    pairs = [(ring.step_secs(run.gpus, run.batch), run.step_secs) for run in scaling.PUBLISHED]
    assert scaling.relative_errors(pairs)[1] < 0.1


def test_an_exchange_costs_what_no_computation_hides(scaling):
    how = {"message_secs": 1e-4, "bandwidth": 1e9, "overlap": 0.0}
    work = scaling.traffic(scaling.RESNET50_BYTES, 8)
    assert scaling.exchange_step_secs(0.3, 8, **how) == pytest.approx(
        0.3 + work.messages * 1e-4 + work.sent_bytes / 1e9
    )
    assert scaling.exchange_step_secs(0.3, 1, **how) == 0.3
    hidden = {"message_secs": 0.0, "bandwidth": 1e15, "overlap": 0.5}
    assert scaling.exchange_step_secs(0.3, 8, **hidden) == 0.3


def test_the_script_fits_what_the_benchmarks_have_written(scaling, tmp_path, monkeypatch, capsys):
    model = scaling.ExchangeModel(2e-3, 1e-4, 1e-9, 3e-10, 2e-5)
    exchange, cluster, out = (tmp_path / name for name in ("exchange.json", "cluster.json", "out.json"))
    figures = {"environment": {}}
    for megabytes, workers, arrays in itertools.product((0.1, 1, 10, 100), (2, 4), (1, 16)):
        work = scaling.traffic(megabytes * 1e6, workers, arrays).of_all(workers)
        secs = {"nothing": 1e-3, "queues": 1e-3 + model.secs(work)}
        ways = {way: {"median_secs": value} for way, value in secs.items()}
        point = {"megabytes": megabytes, "workers": workers, "arrays": arrays, "ways": ways}
        figures[f"{megabytes} {workers} {arrays}"] = point
    exchange.write_text(json.dumps(figures))
    rows = {"alone": {"median_secs": 0.1}, "replicated": {"median_secs": 0.5}}
    cluster.write_text(json.dumps({"environment": {}, "perceptron": {"rows": rows}}))
    arguments = ["", "--exchange", str(exchange), "--cluster", str(cluster), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)

    scaling.main()

    written = json.loads(out.read_text())
    assert written["exchange"]["message_secs"] == pytest.approx(1e-4)
    assert written["exchange"]["largest_error"] < 1e-6
    assert len(written["read_out"]) == 12
    predicted = (0.1 + model.secs(scaling.traffic(scaling.SIZES["perceptron"][0], 2, 8).of_all(2))) * 1e3
    printed = capsys.readouterr().out
    assert f"perceptron{predicted:13.2f}      500.00" in printed
    assert "1024 V100" in printed
