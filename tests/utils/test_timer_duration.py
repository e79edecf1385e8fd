"""Durations in words."""

import pytest

from tpack.errors import ConfigError
from tpack.utils.timer import humanize_time_delta


@pytest.mark.parametrize(
    ("sec", "words"),
    [
        (0, "0 seconds"),
        (0.01234, "0.0123 seconds"),
        (1, "1 second"),
        (59.94, "59.9 seconds"),
        (59.96, "1 minute"),
        (61.4, "1 minute 1 second"),
        (3600, "1 hour"),
        (3723, "1 hour 2 minutes 3 seconds"),
        (90000, "1 day 1 hour"),
        (2 * 86400 + 59.6, "2 days 1 minute"),
    ],
)
def test_duration_is_said_in_words(sec, words):
    assert humanize_time_delta(sec) == words


@pytest.mark.parametrize("sec", [-1, float("nan"), float("inf")])
def test_what_is_no_duration_raises(sec):
    with pytest.raises(ConfigError, match="wanted a finite number of at least 0"):
        humanize_time_delta(sec)
