"""Generators that differ from each other, and repeat under a fixed seed."""

import multiprocessing

import numpy as np
import pytest

from tpack.errors import ConfigError
from tpack.utils.rng import fix_rng_seed, get_rng, same_in_all_processes


@pytest.fixture(autouse=True)
def no_seed():
    """Leave no fixed seed behind."""
    yield
    fix_rng_seed(None)


def draw(obj=None):
    return tuple(get_rng(obj).randint(2**31, size=4))


def test_generator_has_the_methods_that_scripts_use():
    rng = get_rng()
    assert isinstance(rng, np.random.RandomState)
    assert rng.rand(2, 3).shape == (2, 3)
    assert 1 <= rng.uniform(1, 2) < 2


def test_without_a_seed_all_differ():
    assert len({draw() for _ in range(5)}) == 5


def test_with_a_seed_runs_repeat_and_objects_differ():
    runs = []
    for _ in range(2):
        fix_rng_seed(7)
        runs.append([draw(), draw(), draw(1), draw("a")])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 4


def test_other_seed_gives_other_numbers():
    fix_rng_seed(7)
    first = draw()
    fix_rng_seed(8)
    assert draw() != first


def test_objects_of_other_types_do_not_shift_the_numbers():
    fix_rng_seed(7)
    first = draw(1)
    fix_rng_seed(7)
    draw("a")
    assert draw(1) == first


def send_numbers(pipe):
    pipe.send(draw())


def test_forked_workers_differ_from_each_other_and_repeat():
    context = multiprocessing.get_context("fork")
    runs = []
    for _ in range(2):
        fix_rng_seed(7)
        numbers = []
        for name in ("worker-0", "worker-1"):
            here, there = context.Pipe()
            process = context.Process(target=send_numbers, args=(there,), name=name)
            process.start()
            numbers.append(here.recv())
            process.join()
        runs.append([*numbers, draw()])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 3


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (-1, "fix_rng_seed got seed=-1: expected an integer of at least 0, or None"),
        (1.5, "fix_rng_seed got seed=1.5: expected an integer or None"),
        ("7", "fix_rng_seed got seed='7': expected an integer or None"),
        (True, "fix_rng_seed got seed=True: expected an integer or None"),
    ],
)
def test_bad_seed_raises(seed, message):
    with pytest.raises(ConfigError, match=message):
        fix_rng_seed(seed)


def test_generators_of_a_block_are_the_same_whatever_seed_is_fixed():
    def drawn():
        with same_in_all_processes(3):
            return [get_rng(kind()).randint(1000) for kind in (object, list, object)]

    first = drawn()
    fix_rng_seed(7)
    before = get_rng().randint(1000)
    assert drawn() == first
    assert len(set(first)) == 3
    fix_rng_seed(7)
    assert get_rng().randint(1000) == before, "those outside of the block are as without it"
    with same_in_all_processes(4):
        assert [get_rng(object()).randint(1000)] != first[:1]
