import ipaddress
import socket

import pytest

from tpack.multi_worker.port_filter import listen_only_at, own_addresses


@pytest.fixture
def listener():
    """A socket that listens on all interfaces, IPv4 and IPv6, as those of gRPC do."""
    with socket.socket(socket.AF_INET6) as found:
        found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        found.bind(("::", 0))
        found.listen()
        yield found


def connects(host, port):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as connection:
        connection.settimeout(0.2)
        return connection.connect_ex((host, port)) == 0


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        (["127.0.0.1"], ["127.0.0.2", "::1"]),
        (["::1"], ["127.0.0.1"]),
        (["127.0.0.1", "::1"], ["127.0.0.2"]),
        (["127.0.0.3", "127.0.0.2"], ["127.0.0.1"]),
    ],
    ids=" ".join,
)
def test_only_what_is_sent_to_the_addresses_arrives(listener, allowed, refused):
    port = listener.getsockname()[1]
    assert all(connects(host, port) for host in [*allowed, *refused])
    assert listen_only_at(port, map(ipaddress.ip_address, allowed))
    assert [connects(host, port) for host in allowed] == [True] * len(allowed)
    assert [connects(host, port) for host in refused] == [False] * len(refused)


def test_a_port_at_which_nobody_listens_is_not_restricted():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        assert not listen_only_at(other.getsockname()[1], [ipaddress.ip_address("127.0.0.1")])


def test_addresses_are_those_that_others_send_to(monkeypatch):
    assert list(map(str, own_addresses("127.0.0.1"))) == ["127.0.0.1"]
    assert "127.0.0.1" in map(str, own_addresses("localhost"))
    # The address of another machine, and a name that stands for nothing.
    assert own_addresses("192.0.2.1") == ()
    assert own_addresses("no-such-host.invalid") == ()
    # The machine's own name, where /etc/hosts says that it is a loopback address.
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **options: answer)
    assert own_addresses("node1") == ()
