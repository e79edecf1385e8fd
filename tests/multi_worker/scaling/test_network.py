import json
import math
from dataclasses import replace

import pytest

from tpack.errors import ConfigError
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.codecs.power_sgd import PowerSGD
from tpack.multi_worker.codecs.quantization import Int8
from tpack.multi_worker.scaling import network as network_module
from tpack.multi_worker.scaling.link_benchmark import PROBES, ClusterSpeed, LinkSpeed
from tpack.multi_worker.scaling.network import (
    MeasuredExchange,
    NetworkSpeed,
    fit_processor,
    measure_codec,
    merged,
    network_of,
    read_json,
)
from tpack.multi_worker.scaling.schedule import GradientSpec, Place, all_reduce_schedule

PARTS = {"peer_secs": 1.5e-3, "message_secs": 3e-4, "byte_secs": 9e-10}
STEP, SUM = 6e-4, 1.4e-10


def processor_secs(schedule, parts):
    peers, messages, sent, summed = MeasuredExchange(schedule, 1.0).parts()
    secs = peers * parts["peer_secs"] + messages * parts["message_secs"] + sent * parts["byte_secs"]
    return secs + summed * SUM


def schedule_of(number, workers):
    count, elements, bucket_bytes = PROBES[number]
    gradients = [GradientSpec(f"array{n}", (elements,)) for n in range(count)]
    return all_reduce_schedule(gradients, Exchange(bucket_bytes=bucket_bytes, levels=1), Place(workers))


def cluster_of(workers, parts=PARTS):
    """Return what a cluster whose processors take these times would have measured."""
    pairs = [LinkSpeed(a, b, 8e-4, 1e9, 1.2e9, 5e8) for a in range(workers) for b in range(a + 1, workers)]
    probes = tuple(processor_secs(schedule_of(number, workers), parts) for number in range(len(PROBES)))
    calls = 0.4 * (workers - 1) * parts["peer_secs"]
    return ClusterSpeed(tuple(pairs), 1e9, probes, calls, SUM, STEP, cores=2)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("parts", [PARTS, {**PARTS, "peer_secs": 0.0}, {**PARTS, "byte_secs": 0.0}])
def test_the_numbers_that_made_the_measurements_are_found(workers, parts):
    network = network_of(cluster_of(workers, parts))
    assert {name: getattr(network, name) for name in parts} == pytest.approx(parts, rel=1e-6, abs=1e-14)
    assert (network.step_secs, network.sum_secs, network.cores) == (STEP, SUM, 2)
    assert network.bandwidth == 1.1e9
    assert network.call_share == pytest.approx(0.4 if parts["peer_secs"] else 0.0)
    # The way of a message without its processing.
    assert network.latency_secs == pytest.approx(8e-4 - 3e-4)


def test_several_measurements_of_a_cluster_are_fitted_together():
    one, other = network_of(cluster_of(2)), network_of(cluster_of(4))
    both = merged([one, other])
    assert {name: getattr(both, name) for name in PARTS} == pytest.approx(PARTS, rel=1e-6)
    assert set(both.probes) == {"2", "4"}
    assert merged([one]) is one
    with pytest.raises(ConfigError, match="several networks got no probes"):
        merged([one, NetworkSpeed(0.0, 1e9, 0.0, 0.0, 0.0, 0.0)])


def test_of_several_checks_of_as_many_workers_the_least_times_count():
    quiet = cluster_of(2)
    # Each check was disturbed in other exchanges, and one in its sums.
    noisy = [replace(quiet, probes=tuple(secs * (1 + (n % 2 == odd)) for n, secs in enumerate(quiet.probes)))
             for odd in (0, 1)]  # fmt: skip
    noisy[1] = replace(noisy[1], sum_secs=9 * SUM)
    alone, both = network_of(noisy[0]), merged([network_of(each) for each in noisy])
    assert {name: getattr(both, name) for name in PARTS} == pytest.approx(PARTS, rel=1e-6)
    assert both.sum_secs == SUM
    assert alone.message_secs != pytest.approx(PARTS["message_secs"], rel=0.1)


def test_no_number_is_negative():
    # More messages take less time here, which no sum of parts can say.
    schedules = [schedule_of(number, 2) for number in range(3)]
    points = [MeasuredExchange(schedule, secs) for schedule, secs in zip(schedules, (3.0, 2.0, 1.0), strict=True)]
    assert min(fit_processor(points, SUM).values()) >= 0


def test_what_was_not_measured_cannot_be_fitted():
    speed = ClusterSpeed((LinkSpeed(0, 1, 1e-4, 1e9, 1e9, 1e9),), 1e9)
    with pytest.raises(ConfigError, match="network_of got no probes"):
        network_of(speed)


def test_a_file_has_all_numbers(tmp_path):
    network = NetworkSpeed(
        1e-4, math.inf, 1e-4, 3e-4, 5e-10, 1.5e-10, 5e-4, 0.2, {"Int8()": [1e-9, 2e-9]}, 8, {"2": [0.1]}
    )
    path = str(tmp_path / "network.json")
    network.write(path)
    assert NetworkSpeed.read(path) == network
    assert json.loads((tmp_path / "network.json").read_text())["bandwidth"] is None


@pytest.mark.parametrize("content", ["[1]", '{"latency": 3}', '{"latency_secs": 0.1}'])
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="NetworkSpeed.read got .*other.json: expected"):
        NetworkSpeed.read(str(path))
    path.write_text("not JSON")
    with pytest.raises(ConfigError, match="expected a JSON file"):
        read_json(str(path))


def test_numbers_out_of_range_are_refused():
    with pytest.raises(ConfigError, match="bandwidth"):
        NetworkSpeed(1e-4, 0.0, 1e-4, 3e-4, 5e-10, 1.5e-10)
    with pytest.raises(ConfigError, match="message_secs"):
        NetworkSpeed(1e-4, 1e9, -1.0, 3e-4, 5e-10, 1.5e-10)


def test_the_same_processors_at_other_links():
    network = NetworkSpeed(1e-4, 1e9, 1e-4, 3e-4, 5e-10, 1.5e-10)
    other = network.over(1e7, 0.002).with_cores(4)
    assert (other.bandwidth, other.latency_secs, other.cores) == (1e7, 0.0021, 4)
    assert other.message_secs == network.message_secs


def test_a_codec_with_a_course_of_its_own_is_measured_as_a_whole(monkeypatch):
    encode, decode = measure_codec(PowerSGD(1), [[64, 64], [32, 64]], runs=3)
    # Differences of times, which are nothing where something else took longer.
    assert min(encode, decode) >= 0

    def by_number_of_operations(session, ops, runs):
        for op in ops:
            session.run(op)
        return [1.0, 3.0, 3.0 if ops[1] is ops[2] else 7.0]

    monkeypatch.setattr(network_module, "_processor_secs", by_number_of_operations)
    assert measure_codec(PowerSGD(1), [[64, 64], [32, 64]]) == (2 / 6144, 0.0)
    assert measure_codec(Int8(), [[512, 512]]) == (2 / 512**2, 4 / 512**2)


def test_the_numbers_of_a_network_are_a_line():
    network = NetworkSpeed(1e-4, 1.2e9, 2e-4, 1.5e-3, 9e-10, 1.3e-10)
    assert network.describe() == (
        "a hop 100 us, 1.20 GB/s; of the processor: a message 200 us, a peer 1500 us, a gigabyte sent 0.90 s, added "
        "0.13 s"
    )
