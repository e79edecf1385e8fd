"""What does not need the client; `tests.trials.trackers` trains with it."""

import pytest

from tpack.callbacks.monitors.experiment_tracker import _as_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cost", "cost"),
        ("Throughput (steps/sec)", "Throughput _steps/sec_"),
        ("/a//b/", "a/b"),
        ("../a", "_/a"),
        ("Größe", "Gr__e"),
    ],
)
def test_names_are_those_that_mlflow_takes(name, expected):
    assert _as_name(name) == expected
