"""The simulator against sums that are made by hand: what overlaps, what waits, and what the chain consists of."""

import math

import pytest

from tpack.multi_worker.codecs.quantization import Int8
from tpack.multi_worker.scaling.network import NetworkSpeed
from tpack.multi_worker.scaling.schedule import ELSEWHERE, SERVER, Course, Hop, Schedule, Work
from tpack.multi_worker.scaling.simulator import CAUSES, Computation, Machine, StepTime, Timeline, simulate_step

MB = 1_000_000
FREE = {"latency_secs": 0.0, "message_secs": 0.0, "peer_secs": 0.0, "byte_secs": 0.0, "sum_secs": 0.0}


def speed(**numbers):
    return NetworkSpeed(**{"bandwidth": math.inf, **FREE, **numbers})


def step(hops, network, *, secs=0.0, machine=None, before=(), workers=2, jitter=0.0, codec=None, peers=0):
    """Return the simulated step with one bucket, which is ready when all is computed."""
    schedule = Schedule((Course((0,), ((tuple(hops),),)),), peers, before)
    computation = Computation(secs, [1.0], jitter)
    return simulate_step(schedule, computation, network, machine or Machine(1), workers, codec=codec)


def both_ways(messages, size_bytes, **options):
    return Hop(messages, size_bytes, messages, size_bytes, **options)


def test_tasks_wait_for_others_and_for_their_resource():
    timeline = Timeline()
    timeline.provide("core", 1)
    timeline.provide("two", 2)
    first = timeline.add("core", {"sums": 1.0})
    timeline.add("core", {"codec": 2.0})
    timeline.add("two", {"latency": 4.0}, [first])
    timeline.add("two", {"latency": 4.0}, [first])
    timeline.add("two", {"bandwidth": 0.5}, [first])
    last = timeline.run()
    assert last.secs == 5.5
    # The third of two servers waits for one of the first two, and that one for the sum.
    assert {cause: secs for cause, secs in last.causes.items() if secs} == {
        "sums": 1.0,
        "latency": 4.0,
        "bandwidth": 0.5,
    }


def test_part_of_a_server_is_slower():
    timeline = Timeline()
    timeline.provide("core", 0.25)
    timeline.add("core", {"sums": 1.0})
    assert timeline.run().secs == 4.0


def test_an_empty_timeline_takes_no_time():
    assert Timeline().run() == StepTime(0.0, dict.fromkeys(CAUSES, 0.0))


def test_a_message_takes_both_processors_the_way_and_the_link():
    network = speed(latency_secs=1e-3, bandwidth=1e9, message_secs=2e-3, byte_secs=1e-9)
    found = step([both_ways(1, MB)], network, secs=0.1)
    # Both halves of a message and its bytes, one link's time, and the way.
    assert found.secs == pytest.approx(0.1 + 2e-3 + 1e-3 + 1e-3 + 1e-3)
    assert found.causes["computation"] == pytest.approx(0.1)
    assert sum(found.causes.values()) == pytest.approx(found.secs)


def test_what_is_ready_early_travels_while_the_rest_is_computed():
    hop = both_ways(1, 10 * MB)
    courses = (Course((0,), (((hop,),),)), Course((1,), (((hop,),),)))
    network = speed(bandwidth=1e9)
    found = simulate_step(Schedule(courses, 1), Computation(0.1, [0.5, 1.0]), network, Machine(1), 2)
    assert found.secs == pytest.approx(0.1 + 0.01)
    # With a slower link the second waits for the first.
    slow = simulate_step(Schedule(courses, 1), Computation(0.1, [0.5, 1.0]), speed(bandwidth=1e8), Machine(1), 2)
    assert slow.secs == pytest.approx(0.05 + 2 * 0.1)
    assert slow.limit == "bandwidth"


def test_workers_of_a_machine_share_its_cores_and_its_link():
    network = speed(bandwidth=1e9, sum_secs=1e-9)
    alone = step([both_ways(1, MB), Work(MB)], network, machine=Machine(1))
    shared = step([both_ways(1, MB), Work(MB)], network, machine=Machine(2, workers=8))
    assert alone.secs == pytest.approx(1e-3 + 1e-3)
    assert shared.secs == pytest.approx(8e-3 + 4e-3)
    inside = step([both_ways(1, MB, remote=0.0), Work(MB)], network, machine=Machine(2, workers=8))
    assert inside.secs == pytest.approx(4e-3)


def test_all_senders_meet_at_the_link_of_one_receiver():
    network = speed(bandwidth=1e9)
    gathered = Hop(1, MB, 63, 63 * MB, sender=ELSEWHERE)
    assert step([gathered], network).secs == pytest.approx(63e-3)
    handed_out = Hop(63, 63 * MB, 1, MB, receiver=ELSEWHERE)
    assert step([handed_out], network).secs == pytest.approx(63e-3)


def test_a_server_is_a_node_of_its_own():
    network, server = speed(bandwidth=1e9, sum_secs=1e-9), f"{SERVER}0"
    fetch = (Course((), (((Hop(4, 4 * MB, 1, MB, sender=server),),),)),)
    sent = [Hop(1, MB, 4, 4 * MB, receiver=server), Work(5 * MB, node=server)]
    found = step(sent, network, secs=0.1, before=fetch, workers=4)
    assert found.secs == pytest.approx(4e-3 + 0.1 + 4e-3 + 5e-3)


def test_batches_of_messages_overlap_on_their_way():
    """A processor, a link and a processor: the slowest of them counts, and the others once."""
    network = speed(bandwidth=1e9, message_secs=1e-3)
    found = step([both_ways(8, 8 * MB)], network, machine=Machine(2))
    # A message: half a millisecond, one, half. The link is busy eight times.
    assert found.secs == pytest.approx(0.5e-3 + 8e-3 + 0.5e-3)


def test_codecs_and_calls_of_peers_and_steps_take_time():
    codec = Int8()
    network = speed(peer_secs=1e-3, step_secs=2e-3, codecs={repr(codec): [1e-9, 2e-9]})
    encoded = Work(encoded=MB, decoded=MB)
    found = step([encoded], network, peers=3, codec=codec)
    assert found.secs == pytest.approx(2e-3 + 3e-3 + 3e-3)
    assert found.causes["codec"] == pytest.approx(3e-3)
    assert step([encoded], network, peers=3).causes["codec"] == 0


def test_the_slowest_of_many_workers_is_later():
    steady, computation = Computation(0.1, [1.0]), Computation(0.1, [1.0], 0.01)
    assert steady.slowest_secs(1000) == 0
    # The expected largest of 2 and of 100 draws of a normal distribution, from tables.
    assert computation.slowest_secs(2) == pytest.approx(0.01 * 0.5642, rel=0.05)
    assert computation.slowest_secs(100) == pytest.approx(0.01 * 2.5076, rel=0.01)
    assert computation.slowest_secs(100, steps=4) == pytest.approx(2 * computation.slowest_secs(100))
    assert computation.slowest_secs(1) == 0
    found = step([], speed(), secs=0.1, jitter=0.01, workers=100)
    assert found.secs == pytest.approx(0.1 + computation.slowest_secs(100))
    assert found.limit == "stragglers"


def test_a_step_that_only_computes_is_limited_by_it():
    assert step([], speed(), secs=0.1).limit == "computation"
