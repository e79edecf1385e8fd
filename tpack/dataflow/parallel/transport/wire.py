"""What two processes say to each other about the memory that they share.

From the producer come records of one size: here is a block of slots, here is a message in a slot. From the consumer
come returns of another size: this slot is free again, or: give up what you are at. Both go over one pair of connected
sockets. They are small and few, at most one for each slot at a time, so that writing them never waits.
"""

import enum
import struct

RECORD = struct.Struct("<BxHIQQ")
"""Kind, slot, number of data points, where the message begins in the slot, its size."""

RETURN = struct.Struct("<HH")
"""Generation and number of the slot."""

CANCEL = 0xFFFF
"""As generation of a return: the consumer does not want the rest of this pass. The slot is the number of the wish."""

MAX_NUMBER = 0xFFFF
"""The greatest such number, after which comes 0."""

MAX_SLOTS = 128
"""The greatest number of slots: as many returns fit into the smallest usual buffer of a socket."""

VIEW_BYTES = 64 * 1024
"""The size from which on an array is handed out as a view; copying less costs no more than giving a slot back later."""

MAX_LEASES = 8
"""How many slots the consumer may lease at a time; when there are as many, it copies."""


class Kind(enum.IntEnum):
    """The kinds of records."""

    BLOCK = 0
    """More slots: their generation, their number, their size, and 1 if they replace all others. With a descriptor."""
    POINT = 1
    """One data point."""
    PACK = 2
    """Several small data points."""
    DROPPED = 3
    """Data points of which the function made None; without a slot."""
    ERROR = 4
    """An exception."""
    END = 5
    """The end of a pass; without a slot."""
    BEGUN = 6
    """Nothing from before a command comes any more; and once more, when it has been obeyed. Without a slot."""
    STATE = 7
    """The position before the next data point."""
    COMMAND = 8
    """From the owner to a worker: begin a pass."""
    FATAL = 9
    """An exception that has ended the worker."""
    READY = 10
    """The worker has begun: what it works on is loaded. Without a slot."""


class PeerGoneError(EOFError):
    """The other process has closed its end, or has died."""


class CancelledError(Exception):
    """The consumer does not want the rest of this pass."""
