"""What measures the ways between workers, on loopback, where every way is measured and none can be compared."""

import os

import pytest

from tests.helpers.worker_job import run_workers, values_of
from tpack.cli.main import main
from tpack.errors import ClusterError, ConfigError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.peers import connect_peers
from tpack.multi_worker.cluster.resolver import resolve_cluster
from tpack.multi_worker.scaling import link_benchmark
from tpack.multi_worker.scaling.link_benchmark import PROBES, LinkOptions, measure_links

HERE = "tests.multi_worker.scaling.test_link_benchmark"


def measured(megabytes):
    """Return what a worker measures."""
    member = resolve_cluster()
    with connect_peers(member, timeout_secs=20) as peers:
        return measure_links(member, peers, LinkOptions(megabytes, runs=2, timeout_secs=20))


def processors():
    """Return what a worker measures of processors, too."""
    member = resolve_cluster()
    with connect_peers(member, timeout_secs=20) as peers:
        return measure_links(member, peers, LinkOptions(0.1, runs=1, timeout_secs=20, with_processors=True))


def check_with_one_that_waits(arguments):
    """Be a worker of a check in which worker 1 does nothing when its turn comes, and waits for what follows."""
    if os.environ["RANK"] == "1":
        link_benchmark._Probe.measure_pair = lambda *_: {}
    return main(arguments)


def test_each_pair_is_measured_in_both_directions_and_all_workers_know_it(tmp_path):
    outcomes = run_workers(f"{HERE}.measured", 3, tmp_path, arguments={"megabytes": 0.5})

    assert [outcome.code for outcome in outcomes] == [0, 0, 0], "\n".join(each.text for each in outcomes)
    first, *others = [outcome.value for outcome in outcomes]
    assert all(other == first for other in others)
    assert [(pair.first, pair.second) for pair in first.pairs] == [(0, 1), (0, 2), (1, 2)]
    speeds = [(pair.latency_secs, pair.there, pair.back, pair.all_reduce) for pair in first.pairs]
    assert all(0 < speed < float("inf") for each in speeds for speed in each)
    assert 0 < first.all_reduce < float("inf")
    assert first.probes == ()


def test_processors_are_measured_where_they_are_asked_for(tmp_path):
    first, other = values_of(run_workers(f"{HERE}.processors", 2, tmp_path))
    assert first == other
    assert len(first.probes) == len(PROBES)
    assert first.step_secs > 0
    # The second is eight times as many messages as the first, and the third 32 times.
    assert 0 < first.probes[0] < first.probes[2]
    assert 0 < first.sum_secs < 1e-6
    assert first.cores >= 1


def test_a_worker_that_does_not_answer_is_named_within_the_limit(tmp_path):
    arguments = {"arguments": ["cluster", "check", "--timeout", "2", "--megabytes", "0.1"]}

    chief, other = run_workers(f"{HERE}.check_with_one_that_waits", 2, tmp_path, arguments=arguments)

    # Neither was ended since it took longer than a test may.
    assert (chief.value, other.value) == (1, 1)
    assert "worker 0 could not finish 'hops' with worker 1 within 2 s" in chief.text
    assert "tpack cluster: " in other.text


def test_one_process_has_nobody_to_measure():
    with connect_peers(ClusterMember()) as peers, pytest.raises(ClusterError, match="measure_links got one worker"):
        measure_links(ClusterMember(), peers)


@pytest.mark.parametrize("wrong", [{"megabytes": 0}, {"runs": 0}, {"timeout_secs": -1.0}])
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        LinkOptions(**wrong)


def test_what_is_sent_is_whole_pieces():
    assert LinkOptions(8.0).num_elements == 2_000_000
    assert LinkOptions(1e-9).num_elements == 4
