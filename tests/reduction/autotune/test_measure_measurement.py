import json
import math

import pytest

from tpack.reduction.autotune.measure import Measurement, format_table, sorted_rows

ROW = Measurement("xring", (0.3, 0.1, 0.2), 12, 0.5, 2.5e6, 6)
BROKEN = Measurement("nccl", (0.001,), error="killed after 3 s")


def test_the_median_counts():
    assert ROW.median_secs == 0.2
    assert math.isinf(Measurement("none").median_secs)
    assert math.isinf(BROKEN.median_secs)


def test_a_row_survives_json():
    assert Measurement.from_json(json.loads(json.dumps(ROW.as_json()))) == ROW
    assert Measurement.from_json(json.loads(json.dumps(BROKEN.as_json()))) == BROKEN


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"secs": ["fast"]}, ValueError, "could not convert"),
        ({"name": 3}, ValueError, "^Measurement got name="),
        ({"error": None}, ValueError, "^Measurement got error="),
        ({"hops": "many"}, ValueError, "^Measurement got hops="),
        ({"colour": "red"}, TypeError, "colour"),
    ],
)
def test_what_is_no_row_is_refused(change, error, text):
    with pytest.raises(error, match=text):
        Measurement.from_json({**ROW.as_json(), **change})


def test_the_table_has_the_fastest_first_and_errors_last():
    slow = Measurement("one_device", (0.4,), 3, 0.1, 1e6, 2)
    assert [row.name for row in sorted_rows([BROKEN, slow, ROW])] == ["xring", "one_device", "nccl"]
    lines = format_table([BROKEN, slow, ROW]).splitlines()
    assert lines[0].split()[:4] == ["reducer", "ms", "a", "step"]
    assert lines[2].split() == ["xring", "200.00", "1.00", "12", "0.50", "2.50", "6"]
    assert lines[3].split() == ["one_device", "400.00", "2.00", "3", "0.10", "1.00", "2"]
    assert lines[4].split(maxsplit=1) == ["nccl", "killed after 3 s"]


def test_an_empty_table_has_a_header():
    assert format_table([]).split()[0] == "reducer"
