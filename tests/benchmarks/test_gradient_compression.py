"""Choices of what travels are measured beside plain gradients; wires carry what they should, when they should."""

import importlib
import json
import os

import pytest

from tests.helpers import preloaded
from tests.helpers.source import ROOT

ROWS = ("plain", "int8", "accumulate=4")
NUM_WEIGHTS = 1024 * 48 + 2 * 48 * 48 + 48 * 1000 + 3 * 48 + 1000
"""Of the perceptron with a 64th of its width."""
SIZE = 300_000


@pytest.fixture
def cluster_wire(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("cluster_wire")


def test_choices_are_measured_beside_plain_gradients(tmp_path, cluster_wire):
    links = ("loopback", "1 Gb/s")
    arguments = ("--networks", "perceptron", "--shrink", 64, "--workers", 2, "--steps", 3, "--rounds", 2)
    out = tmp_path / "out.json"

    done = preloaded.run(
        ROOT / "benchmarks" / "gradient_compression.py",
        ["--out", out, *arguments, "--links", *links, "--rows", *ROWS],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
    reason = cluster_wire.why_not()
    assert (f"All links but loopback are left out: {reason}" in done.stdout) == bool(reason)
    for link in links[: 1 if reason else 2]:
        measured = figures[f"perceptron, workers=2, {link}"]
        assert measured["errors"] == {}
        assert set(measured["ratios"]) == set(ROWS)
        assert measured["ratios"]["plain"] == 1
        assert min(measured["ratios"].values()) > 0
    if not reason:
        # What was sent before the count began may be missing, and headers and heartbeats are there too.
        sent = figures["perceptron, workers=2, 1 Gb/s"]["sent_bytes"]
        assert sent["plain"] == pytest.approx(4 * NUM_WEIGHTS, rel=0.5)
        assert sent["int8"] < 0.5 * sent["plain"]
        assert sent["accumulate=4"] < 0.5 * sent["plain"]


def test_packets_leave_one_after_the_other_and_arrive_after_the_delay(cluster_wire):
    traffic = cluster_wire.Traffic(cluster_wire.Link(8e3, 5.0), 3)
    # A thousand bytes a second.
    assert traffic.arrives(10.0, 0, 1, 1000) == 16.0
    assert traffic.begins(0) == 11.0
    assert traffic.arrives(10.5, 0, 2, 500) == 16.5
    # The link of the receiver is taken until 16.
    assert traffic.begins(2) == 0.0
    assert traffic.arrives(10.0, 2, 1, 1000) == 17.0
    assert traffic.arrives(30.0, 0, 1, 1000) == 36.0


def test_a_packet_is_what_a_link_carries_in_half_a_millisecond(cluster_wire):
    rates = (1e5, 1e8, 1e9, 1e11)
    assert [cluster_wire.Link(bits).packet_bytes for bits in rates] == [1500, 6250, 62000, 62000]


def test_wires_carry_bytes_unchanged_and_are_the_only_way(tmp_path, cluster_wire):
    reason = cluster_wire.why_not()
    if reason:
        pytest.skip(f"no network namespaces: {reason}")
    script = tmp_path / "ends.py"
    script.write_text(ENDS)

    done = preloaded.run(script, [SIZE], env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")})

    assert done.returncode == 0, done.stderr
    received, counted, interfaces = json.loads(done.stdout)
    assert received
    assert SIZE <= counted < 1.2 * SIZE
    assert interfaces == ["lo", "wire"]


ENDS = """
import contextlib, json, multiprocessing, os, socket, sys
from cluster_line import wire_bytes
from cluster_wire import Link, Wire
sent = os.urandom(int(sys.argv[1]))
fork = multiprocessing.get_context("fork")

def receive(wire, ready, answers):
    wire.enter(1)
    with socket.create_server((wire.hosts[1], 5000)) as listener:
        ready.set()
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as data:
            answers.put(data.read() == sent)

def send(wire, ready, answers):
    wire.enter(0)
    ready.wait()
    with socket.create_connection((wire.hosts[1], 5000)) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    answers.put([wire_bytes(), sorted(name for _, name in socket.if_nameindex())])

with contextlib.ExitStack() as stack:
    wire, ready, answers = Wire(Link(1e8, 1e-3), 2, stack=stack), fork.Event(), fork.SimpleQueue()
    ends = [fork.Process(target=end, args=(wire, ready, answers)) for end in (receive, send)]
    for end in ends:
        end.start()
    for end in ends:
        end.join()
    values = [answers.get(), answers.get()]
    received, counted = sorted(values, key=lambda value: isinstance(value, list))
    print(json.dumps([received, *counted]))
"""
