"""A group of workers without processes: what they say is a script, and what they are told is written down."""

from collections import deque

from tpack.dataflow.checkpoint import Position
from tpack.dataflow.parallel.process_runner import _State
from tpack.dataflow.parallel.receiver import Message
from tpack.dataflow.parallel.slots import Record
from tpack.utils.child_process import failure_of


def points(*values):
    """Return a message with points."""
    return Message(Record.PACK, [[value] for value in values])


def state(number):
    """Return a message with a state that is a number, or none."""
    return Message(
        Record.STATE, [_State(None, "no state") if number is None else _State(Position({"at": number}), None)]
    )


def failure(text="gone"):
    """Return a message with an exception."""
    return Message(Record.ERROR, [failure_of(OSError(text))])


def begun(number):
    """Return the answer to a command."""
    return Message(Record.BEGUN, [], number)


END = Message(Record.END, [])


class FakeGroup:
    """Say what is in ``script``, pairs of a worker and a message."""

    def __init__(self, *script):
        self.script = deque(script)
        self.commands = []
        self.cancelled = []
        self.expected = {}

    def receive(self):
        return self.script.popleft()

    def command(self, index, command):
        self.commands.append((index, command.number, command.position))

    def cancel(self, index, number):
        self.cancelled.append((index, number))

    def expect(self, index, *, is_expected):
        self.expected[index] = is_expected

    def name_of(self, index):
        return f"worker {index}"
