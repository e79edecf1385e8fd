"""``tpack launch``: run a script in several processes that train together, here or on several machines.

Each process gets its place by environment variables, so the script is the same as under torchrun or a scheduler. Output
is shown with the rank before each line, and written to a file for each rank. When a process fails, all are ended and
its last lines are shown; no process survives the command, however it ends.
"""

import argparse
import glob
import os
import re
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from tpack.cli.launcher.agent import MEMORY_PREFIX
from tpack.cli.launcher.agent_client import SSH, Machines, ReachedMachines
from tpack.cli.launcher.console import Console
from tpack.cli.launcher.fork_server import DEFAULT_MODULES
from tpack.cli.launcher.job_run import SIGNALS, Job
from tpack.cli.launcher.plan import Host, parse_hosts, place_workers
from tpack.cli.launcher.process_tree import adopt_orphans, descendants, end_all
from tpack.cli.launcher.ray_machines import RayMachines, check_resources, parse_resources, ray_connected
from tpack.cli.launcher.restarts import HostFile, Restarts, Team
from tpack.errors import ConfigError
from tpack.multi_worker.cluster.rendezvous import SECRET_VARIABLE
from tpack.utils.lazy import import_optional

_DESCRIPTION = """Run a script in several processes that train together.

Each is told its place by RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and TF_CONFIG. The exit code is 0 if
all ended well; 10 + r if rank r failed first (100 for ranks from 90 on); 1 if no process could be started; 2 if the
arguments cannot work; 128 + n if the signal n ended the job.

With --as horovodrun it takes horovodrun's arguments, and says what they become:
tpack launch --as horovodrun -np 4 -H a:2,b:2 python train.py"""

# Variables that other machines get, besides those of --env.
_HANDED_ON = ("TPACK_", "PYTHONPATH")
_LAUNCH_VARIABLE = "TPACK_LAUNCH_ID"
_RESOURCES = "CPU=1"
_SWEEP_SECS, _CLOSE_SECS = 2.0, 15.0
_IGNORED_BY_HOROVODRUN = ("--gloo", "--mpi", "--verbose", "--disable-cache", "--tcp")
_PYTHON = re.compile(r"python[\d.]*")
# Options that describe the processes; others, such as --env, are often a script's own.
_OF_THE_JOB = ("-n", "--workers", "--ps", "--evaluator", "--hosts", "--on", "--restarts", "--min-workers", "--spares")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-n", "--workers", type=_count, help="how many workers (default: 1, or all of --hosts)")
    parser.add_argument("--ps", type=_number, default=0, help="how many parameter servers (default: %(default)s)")
    parser.add_argument("--evaluator", action="store_true", help="run an evaluator too")
    parser.add_argument(
        "--hosts",
        help="machines and how many workers each takes, such as a:4,b:4, or @FILE with them, in which others may "
        "appear later; reached by ssh",
    )
    parser.add_argument("--ssh", default=SSH, help="the command that reaches them (default: %(default)s)")
    parser.add_argument(
        "--on", choices=["ray"], help="run the workers on a Ray cluster: $RAY_ADDRESS, or this machine's"
    )
    parser.add_argument("--resources", metavar="CPU=N,GPU=M", help="what each worker needs of Ray (default: CPU=1)")
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="a variable for all processes; without a value, that of this process",
    )
    parser.add_argument("--restarts", type=_number, default=0, help="how often to start anew after a failure")
    parser.add_argument(
        "--min-workers", type=_count, help="start anew without workers that were lost, but not with fewer than these"
    )
    parser.add_argument(
        "--rejoin-after",
        type=_secs,
        metavar="SECS",
        help="with --min-workers: take lost workers in again after so many seconds, twice as many each time",
    )
    parser.add_argument(
        "--join-every",
        type=_count,
        metavar="STEPS",
        help="steps of training until workers that wait may join (default: until the next epoch)",
    )
    parser.add_argument(
        "--spares",
        type=_number,
        default=0,
        help="the last so many places of --hosts wait, and take over from lost machines; processes are forked from one "
        "that has imported TensorFlow, on each machine (default: %(default)s)",
    )
    parser.add_argument(
        "--preload",
        action="append",
        default=[],
        metavar="MODULE",
        help="fork processes from one that has imported this, besides TensorFlow and tpack's trainers",
    )
    parser.add_argument("--grace", type=_secs, default=30.0, help="seconds to end when asked to (default: %(default)s)")
    parser.add_argument(
        "--start-timeout", type=_secs, default=60.0, help="seconds for machines to answer (default: %(default)s)"
    )
    parser.add_argument("--log-dir", help="where the ranks' output goes (default: launch_log/ and the time)")
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="what each process runs")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the job of the options.

    Returns:
        The exit code, which identifies the rank that failed.

    Raises:
        ConfigError: An option cannot work, or the script does not exist.
    """
    file = HostFile(options.hosts[1:]) if options.hosts and options.hosts.startswith("@") else None
    hosts = file.slots if file else parse_hosts(options.hosts) if options.hosts else (Host(),)
    workers, spares = _places(hosts, options)
    _check_restarts(options, len(workers))
    _check_ray(options)
    job = _job(options)
    team = Team(
        workers,
        options.ps,
        options.evaluator,
        options.restarts,
        options.min_workers,
        spares,
        options.rejoin_after,
        options.join_every,
        file,
    )
    directory = options.log_dir or os.path.join("launch_log", f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    os.makedirs(directory, exist_ok=True)
    console = Console(directory)
    if strayed := _strayed(options):
        console.say(f"one worker is started, and {strayed} goes to the script: options of tpack launch stand before it")
    try:
        with _nothing_survives(job), _machines(options, job) as machines:
            if isinstance(machines, ReachedMachines):
                machines.prepare(spares)
            return Restarts(replace(job, machines=machines), team, console).run()
    except KeyboardInterrupt:
        # Nothing was started yet: later signals are handled by the run.
        return 128 + signal.SIGINT
    finally:
        console.close()


def _places(hosts: Sequence[Host], options: argparse.Namespace) -> tuple[tuple[Host, ...], tuple[Host, ...]]:
    """Return the machine of each worker, and that of each spare place."""
    hosts = [replace(host, slots=host.slots or 1 if options.hosts else None) for host in hosts]
    if not options.hosts:
        places = place_workers(hosts, (options.workers or 1) + options.spares)
        return places[: options.workers or 1], places[options.workers or 1 :]
    places = place_workers(hosts, None if options.workers is None else options.workers + options.spares)
    if options.spares >= len(places):
        raise ConfigError(f"--spares got {options.spares}: expected fewer than the {len(places)} workers of --hosts")
    places = tuple(replace(host, slots=None) for host in places)
    split = len(places) - options.spares
    return places[:split], places[split:]


def _job(options: argparse.Namespace) -> Job:
    if not options.module and not os.path.isfile(options.script):
        raise ConfigError(f"SCRIPT got {options.script!r}: expected a file of Python; use -m for a module")
    if not shlex.split(options.ssh):
        raise ConfigError("--ssh got nothing: expected a command")
    environment = {name: value for name, value in os.environ.items() if name.startswith(_HANDED_ON)}
    for entry in options.env:
        name, is_given, value = entry.partition("=")
        if not name or (not is_given and name not in os.environ):
            raise ConfigError(f"--env got {entry!r}: expected NAME=VALUE, or the name of a variable that is set here")
        environment[name] = value if is_given else os.environ[name]
    # The secret by which workers on several machines trust each other.
    environment.setdefault(SECRET_VARIABLE, secrets.token_hex(32))
    # Output appears at once, and is not lost if the process is killed.
    environment |= {"PYTHONUNBUFFERED": "1", _LAUNCH_VARIABLE: uuid.uuid4().hex}
    what = ["-m", options.script] if options.module else [options.script]
    command = [sys.executable, *what, *options.arguments]
    return Job(command, os.getcwd(), environment, start_secs=options.start_timeout, grace_secs=options.grace)


def _memory_path(name: str) -> str:
    """Return the directory in memory for a job, but for the name of the machine."""
    return os.path.join("/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir(), MEMORY_PREFIX + name)


def _strayed(options: argparse.Namespace) -> str | None:
    """Return the first of the script's arguments that looks like an option of this command, if that got no number."""
    if options.workers or options.hosts:
        return None
    names = ((text, re.sub(r"^-n\d+$", "-n", text).partition("=")[0]) for text in options.arguments)
    return next((text for text, name in names if name in _OF_THE_JOB), None)


def _check_restarts(options: argparse.Namespace, num_workers: int) -> None:
    if options.min_workers is not None and not options.restarts:
        raise ConfigError("--min-workers got a number without --restarts: expected both")
    if options.rejoin_after is not None and options.min_workers is None:
        raise ConfigError("--rejoin-after got a number without --min-workers: expected both")
    if options.min_workers is not None and options.min_workers > num_workers:
        raise ConfigError(
            f"--min-workers got {options.min_workers}: expected at most {num_workers}, the number of workers"
        )


def _check_ray(options: argparse.Namespace) -> None:
    if options.on is None:
        if options.resources is not None:
            raise ConfigError("--resources got a value without --on ray: expected both")
        return
    if options.spares or options.preload:
        given = "--spares" if options.spares else "--preload"
        raise ConfigError(f"{given} got a value with --on ray: expected one of the two, since Ray starts the processes")
    if options.hosts:
        raise ConfigError("--hosts got machines, and --on ray assigns them: expected one of the two")
    check_resources("--resources", parse_resources(options.resources or _RESOURCES))
    import_optional("ray", "ray")


@contextmanager
def _machines(options: argparse.Namespace, job: Job) -> Iterator[Machines]:
    if options.on is None:
        preload = None
        if options.spares or options.preload:
            modules = [*DEFAULT_MODULES, *options.preload]
            preload = {"executable": job.command[0], "environment": dict(job.environment), "modules": modules}
        machines = ReachedMachines(
            options.ssh, preload, keeps_agents=True, memory=_memory_path(job.environment[_LAUNCH_VARIABLE])
        )
        try:
            yield machines
        finally:
            machines.close(_CLOSE_SECS)
        return
    with ray_connected() as ray:
        yield RayMachines(ray, parse_resources(options.resources or _RESOURCES), start_secs=options.start_timeout)


@contextmanager
def _nothing_survives(job: Job) -> Iterator[None]:
    """End all processes of a job after a block, also those whose agent was killed."""
    adopt_orphans()
    try:
        yield
    finally:
        # One more Ctrl-C would leave processes behind; only the main thread gets it.
        is_main = threading.current_thread() is threading.main_thread()
        previous = {signum: signal.signal(signum, signal.SIG_IGN) for signum in SIGNALS if is_main}
        try:
            own = job.environment[_LAUNCH_VARIABLE]
            end_all(lambda: descendants(lambda process: process.environ().get(_LAUNCH_VARIABLE) == own), _SWEEP_SECS)
            # An agent that was killed has left it.
            for path in glob.glob(f"{_memory_path(own)}.*"):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            adopt_orphans(False)
            for signum, handler in previous.items():
                signal.signal(signum, handler)


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 5:
        raise argparse.ArgumentTypeError(f"got {text!r}: expected a number")
    return int(text)


def _count(text: str) -> int:
    if not _number(text):
        raise argparse.ArgumentTypeError("got '0': expected a number of at least 1")
    return int(text)


def _secs(text: str) -> float:
    try:
        secs = float(text)
    except ValueError:
        secs = -1.0
    if not 0 <= secs < 1e6:
        raise argparse.ArgumentTypeError(f"got {text!r}: expected a number of seconds")
    return secs


class _HorovodrunParser(argparse.ArgumentParser):
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
    parser = _HorovodrunParser(prog="horovodrun", add_help=False, allow_abbrev=False)
    parser.add_argument("-np", "--num-proc", type=int)
    parser.add_argument("-H", "--hosts")
    parser.add_argument("-hostfile", "--hostfile")
    parser.add_argument("-p", "--ssh-port", type=int)
    parser.add_argument("-i", "--ssh-identity-file")
    parser.add_argument("--start-timeout")
    parser.add_argument("--output-filename")
    parser.add_argument("--min-np", "--min-num-proc", dest="min_np", type=int)
    parser.add_argument("--reset-limit", type=int)
    for name in _IGNORED_BY_HOROVODRUN:
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
    ssh = SSH
    ssh += f" -p {given.ssh_port}" if given.ssh_port is not None else ""
    ssh += f" -i {shlex.quote(given.ssh_identity_file)}" if given.ssh_identity_file is not None else ""
    made += ["--ssh", ssh] if ssh != SSH else []
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
