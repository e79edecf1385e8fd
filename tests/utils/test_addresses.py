"""Addresses of processes."""

import pytest

from tpack.errors import ConfigError
from tpack.utils.addresses import is_loopback, join_address, parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a:1", ("a", 1)), ("[::1]:65535", ("::1", 65535)), ("n1.example.org:80", ("n1.example.org", 80))],
)
def test_an_address_is_read_and_written(text, expected):
    assert parse_address("It", "address", text) == expected
    assert join_address(*expected) == text


@pytest.mark.parametrize(
    "address", ["a", ":1", "a:", "a:0", "a:65536", "a:+1", "a b:1", "::1:1", "a,b:1", "http://a:1", "[a]:1", 7]
)
def test_what_is_no_address_is_shown(address):
    with pytest.raises(ConfigError, match="It got field=.*: expected an address such as node1:5000"):
        parse_address("It", "field", address)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_loopback_is_known(host, expected):
    assert is_loopback(host) == expected
