from typing import Any

import pytest

from tests.helpers.tower_grads import cpu_devices
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.spec import AllReduceSpec, check_limits, parse_all_reduce_spec, reducer_for_spec
from tpack.reduction.wrappers.splitting import SplitBySizeReducer

SEED = (AllReduceSpec("nccl", 2, 1024), AllReduceSpec("pscpu/pscpu", 2, -1))


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ([("nccl", 2, 1024), ("pscpu/pscpu", 2, -1)], SEED),
        ([SEED[0], ("pscpu/pscpu", 2)], SEED),
        (list(SEED), SEED),
        ("nccl#2:1024:pscpu/pscpu#2", SEED),
        ("nccl#2:1024:pscpu/pscpu#2:-1", SEED),
        (("pscpu/pscpu", 2, -1), SEED[1:]),
        (("pscpu/pscpu", 2), SEED[1:]),
        ("pscpu/pscpu#2", SEED[1:]),
        (SEED[1], SEED[1:]),
        ("xring", (AllReduceSpec("xring", 1, -1),)),
        (("xring",), (AllReduceSpec("xring", 1, -1),)),
        (
            "rechd:16:psgpu:32:xring#3",
            tuple(AllReduceSpec(*e) for e in [("rechd", 1, 16), ("psgpu", 1, 32), ("xring", 3)]),
        ),
    ],
)
def test_specs_are_read_from_tuples_and_text(spec: Any, wanted: tuple[AllReduceSpec, ...]) -> None:
    assert parse_all_reduce_spec(spec) == wanted


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ([], "got no entry: expected one or more"),
        ("", "entry 0 .*got algorithm='': expected one of one_device, "),
        (3, "^parse_all_reduce_spec got spec="),
        ((), "^parse_all_reduce_spec got spec="),
        ([("xring", 1, 8), "psgpu"], r"^parse_all_reduce_spec got spec\[0\]="),
        ([("xring", 1, 8), ("psgpu", 1, -1, 2)], r"^parse_all_reduce_spec got spec\[0\]="),
        ([("xring", 1, 8), ("ring", 1, -1)], "entry 1 of the all-reduce spec, .*got algorithm='ring'"),
        (
            [("xring", 0, 8), ("psgpu", 1, -1)],
            r"^entry 0 of the all-reduce spec, \('xring', 0, 8\): AllReduceSpec got num_shards=",
        ),
        ([("xring", "2", 8), ("psgpu", 1, -1)], r"^parse_all_reduce_spec got spec\[0\]="),
        ([("xring", True, 8), ("psgpu", 1, -1)], r"^parse_all_reduce_spec got spec\[0\]="),
        ([("xring", 1, 0), ("psgpu", 1, -1)], "entry 0 .*got byte_limit=0: expected 1 or more, or -1 for no limit"),
        ([("xring", 1, -2)], "entry 0 .*got byte_limit=-2: expected 1 or more, or -1 for no limit"),
        ([("xring", 1, 1.5)], r"^parse_all_reduce_spec got spec\[0\]="),
        ([("xring", 1, 64), ("psgpu", 1, 8), ("nccl", 1, -1)], "entry 1 has the limit 8 bytes after 64: expected"),
        ([("xring", 1, -1), ("psgpu", 1, -1)], "entry 0 has no limit"),
        ([("xring", 1, 64)], "entry 0, the last, has the limit 64 bytes"),
        ("xring:64", "entry 0, the last, has the limit 64 bytes"),
        ("xring:64k:psgpu", "entry 0 of the all-reduce spec got '64k' as its limit: expected a whole number"),
        ("xring:64:psgpu#", "entry 1 of the all-reduce spec got '' as its number of shards"),
    ],
)
def test_the_error_points_at_the_bad_entry(spec: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_all_reduce_spec(spec)


def test_a_spec_of_one_entry_is_its_reducer() -> None:
    reducer = reducer_for_spec("xring#2", cpu_devices(4))
    assert isinstance(reducer, RingReducer)
    assert reducer._num_subchunks == 2


def test_a_spec_of_several_entries_splits_by_size() -> None:
    reducer = reducer_for_spec([("one_device", 1, 1024), ("round_robin/xring", 2, -1)], cpu_devices(4))
    assert isinstance(reducer, SplitBySizeReducer)
    assert [(inner.name, limit) for inner, limit in reducer._reducers] == [
        ("one_device", 1024),
        ("sharded_round_robin/xring", -1),
    ]


def test_devices_are_checked_when_the_reducer_is_made() -> None:
    with pytest.raises(ReductionError, match="got 3 towers: expected an even number"):
        reducer_for_spec("one_device:8:hierarchical", cpu_devices(3))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ([], "got no entry: expected one or more"),
        ([1024], "entry 0, the last, has the limit 1024 bytes: expected -1"),
        ([16, 1024], "entry 1, the last, has the limit 1024 bytes"),
        ([16, -1, -1], "entry 1 has no limit: the entries after it"),
        ([16, 32, 32, -1], "entry 2 has the limit 32 bytes after 32: expected limits that rise"),
    ],
)
def test_limits_that_do_not_rise_to_none_are_refused(limits: list[int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_limits(limits)
