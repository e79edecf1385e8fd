"""Comparison of the collective operations of workers."""

import pytest

from tpack.horovod.errors import CollectiveError
from tpack.horovod.negotiation import as_text, compare_collectives, described, lines_of


def test_equal_operations_pass() -> None:
    assert compare_collectives([0, 2], [["allreduce a float32 (2,)"]] * 2) is None


def test_what_differs_is_shown_with_the_workers_that_have_it() -> None:
    with pytest.raises(CollectiveError) as caught:
        compare_collectives(
            [0, 2, 3],
            [["allreduce a float32 (2,)", "allreduce b int32 ()"], ["allreduce b int32 ()"], ["allreduce b int32 ()"]],
        )
    assert "a: allreduce float32 (2,) in worker 0, nothing in workers 2, 3" in caught.value.message
    assert "b:" not in caught.value.message


def test_many_differences_are_counted() -> None:
    with pytest.raises(CollectiveError, match="; and 3 more"):
        compare_collectives([0, 1], [[f"allreduce n{n} float32 ()" for n in range(8)], []])


def test_lines_travel_as_text_and_are_described_shortly() -> None:
    lines = [f"allreduce n{n} float32 ()" for n in range(7)]
    assert lines_of(as_text(lines)) == lines
    assert described(lines) == "allreduce n0, allreduce n1, allreduce n2, allreduce n3, allreduce n4 and 2 more"
