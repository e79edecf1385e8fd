"""Reservation of ports for processes that are started later.

A port that the system has given out is free only until another program asks for one. So a socket stays bound to it and
never listens: the system does not give the port out again, and lets a process bind it with SO_REUSEADDR, as gRPC and
most servers do. It is bound on all interfaces, as gRPC binds all.
"""

import socket
import sys

from tpack.utils.addresses import LOOPBACK


class PortReservation:
    """A port of this machine, reserved until `close`.

    On systems other than Linux it is only chosen, not reserved, and another program may get it.

    Args:
        host: the address that others will know it by: an IPv6 address has a colon.

    Attributes:
        port: its number.
    """

    def __init__(self, host: str = LOOPBACK) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("", 0))
        self.port: int = self._socket.getsockname()[1]
        if not sys.platform.startswith("linux"):
            self.close()

    def __enter__(self) -> "PortReservation":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the port."""
        self._socket.close()
