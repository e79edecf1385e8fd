"""Lists of hosts in Slurm's short form."""

import pytest

from tpack.errors import ConfigError
from tpack.utils.addresses import expand_hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1 n2"),
        ("n[001-003,7],gpu1", "n001 n002 n003 n7 gpu1"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[08-10]", "n08 n09 n10"),
        ("n[98-101]-ib,head.example.org", "n98-ib n99-ib n100-ib n101-ib head.example.org"),
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("n[3]", "n3"),
    ],
)
def test_hosts_are_expanded_in_order(text, hosts):
    assert expand_hosts(text) == tuple(hosts.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n[1-2", "brackets in pairs"),
        ("n1-2]", "brackets in pairs"),
        ("n[1-[2]]", "brackets in pairs"),
        ("n[2-1]", "a number or a range in place of '2-1'"),
        ("n[]", "a number or a range in place of ''"),
        ("n[a-b]", "a number or a range in place of 'a-b'"),
        ("n1,,n2", "hosts between the commas"),
        ("n 1", "hosts between the commas"),
        ("n[0-99999]", "a number or a range"),
        ("n[0-999][0-999]", "at most 65536 hosts"),
    ],
)
def test_what_is_no_list_is_shown(text, message):
    with pytest.raises(ConfigError, match=rf"SLURM_STEP_NODELIST got .*: expected {message}"):
        expand_hosts(text, "SLURM_STEP_NODELIST")


def test_an_empty_list_is_refused():
    with pytest.raises(ConfigError, match="expected text that is not empty"):
        expand_hosts("")
