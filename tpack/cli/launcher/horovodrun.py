"""``horovodrun``'s arguments as those of ``tpack launch``."""

import argparse
import os
import re
import shlex
from collections.abc import Sequence
from typing import NoReturn

from tpack.errors import ConfigError

_IGNORED = ("--gloo", "--mpi", "--verbose", "--disable-cache", "--tcp")
_PYTHON = re.compile(r"python[\d.]*")
_SSH = "ssh -o BatchMode=yes -o ServerAliveInterval=10 -o ServerAliveCountMax=3"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are those of tpack."""

    def error(self, message: str) -> NoReturn:
        """Raise the error."""
        raise ConfigError(f"tpack launch --as horovodrun: {message}")


def launch_arguments(arguments: Sequence[str]) -> list[str]:
    """Return what ``tpack launch`` gets in the place of ``horovodrun`` and its arguments.

    Args:
        arguments: such as ``-np 4 -H a:2,b:2 python train.py --lr 0.1``.

    Raises:
        ConfigError: An option has no counterpart, or the command is none of Python; the message has what to write.

    Example:
        ``["-n", "4", "--hosts", "a:2,b:2", "train.py", "--lr", "0.1"]``
    """
    parser = _Parser(prog="horovodrun", add_help=False, allow_abbrev=False)
    parser.add_argument("-np", "--num-proc", type=int)
    parser.add_argument("-H", "--hosts")
    parser.add_argument("-hostfile", "--hostfile")
    parser.add_argument("-p", "--ssh-port", type=int)
    parser.add_argument("-i", "--ssh-identity-file")
    parser.add_argument("--start-timeout")
    parser.add_argument("--output-filename")
    parser.add_argument("--min-np", "--min-num-proc", dest="min_np", type=int)
    parser.add_argument("--reset-limit", type=int)
    for name in _IGNORED:
        parser.add_argument(name, action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given, unknown = parser.parse_known_args(list(arguments))
    if unknown or given.command[:1] and given.command[0].startswith("-"):
        option = (unknown or given.command)[0]
        raise ConfigError(
            f"tpack launch --as horovodrun got {option}: expected -np, -H, --hostfile, --ssh-port, "
            "--ssh-identity-file, --start-timeout, --output-filename, --min-np or --reset-limit; write "
            f"'tpack launch -n {given.num_proc or 1} ...' with what 'tpack launch --help' has in its place"
        )
    hosts = given.hosts or (_hosts_of(given.hostfile) if given.hostfile else None)
    made = ["-n", str(given.num_proc)] if given.num_proc is not None else []
    made += ["--hosts", hosts] if hosts and not _is_here(hosts) else []
    ssh = _SSH
    ssh += f" -p {given.ssh_port}" if given.ssh_port is not None else ""
    ssh += f" -i {shlex.quote(given.ssh_identity_file)}" if given.ssh_identity_file is not None else ""
    made += ["--ssh", ssh] if ssh != _SSH else []
    made += ["--start-timeout", given.start_timeout] if given.start_timeout else []
    made += ["--log-dir", given.output_filename] if given.output_filename else []
    made += ["--min-workers", str(given.min_np)] if given.min_np is not None else []
    made += ["--restarts", str(given.reset_limit)] if given.reset_limit is not None else []
    return [*made, *_script(given.command)]


def _is_here(hosts: str) -> bool:
    """Tell whether all processes run on this machine."""
    return all(entry.partition(":")[0].strip() in ("localhost", "127.0.0.1") for entry in hosts.split(","))


def _hosts_of(path: str) -> str:
    """Return the machines of a file with lines such as ``a slots=2``, as text for ``--hosts``."""
    hosts = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.partition("#")[0].split()
            if not words:
                continue
            slots = [word.partition("=")[2] for word in words[1:] if word.startswith("slots=")]
            if len(words) > 1 and not slots:
                raise ConfigError(
                    f"--hostfile got {line.strip()!r}: expected a machine and its slots, such as a slots=2"
                )
            hosts.append(f"{words[0]}:{slots[0]}" if slots else words[0])
    return ",".join(hosts)


def _script(command: Sequence[str]) -> list[str]:
    """Return the script of a command, and its arguments."""
    rest = list(command[1:]) if command and _PYTHON.fullmatch(os.path.basename(command[0])) else list(command)
    while rest[:1] == ["-u"]:
        rest.pop(0)
    if rest[:1] == ["-m"] or (rest and rest[0].endswith(".py")):
        return rest
    raise ConfigError(
        f"tpack launch --as horovodrun got {shlex.join(command) or 'no command'!r}: expected a Python script, such as "
        "python train.py; write a script that runs it"
    )
