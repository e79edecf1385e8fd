"""The module that is used as a logger: levels, the caller's place, and the file in the run's directory."""

import json
import logging
import os
import pathlib
import subprocess
import sys
import types

import pytest

from tests.helpers.source import ROOT
from tpack.errors import ConfigError
from tpack.utils import logger
from tpack.utils.dir_lock import DirectoryClaim
from tpack.utils.launch_env import read_launch_env
from tpack.utils.remote.directories import finish_directories


class Messages(logging.Handler):
    """A handler that keeps the messages it gets."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        self.seen.append(record.getMessage())


@pytest.fixture(autouse=True)
def as_before():
    """Bring level and directory back after the test."""
    logger.info("start")
    level = logging.getLogger("tpack").level
    yield
    logger.close_logger_dir()
    logger.setLevel(level)


def read_log(directory):
    return (directory / "log.log").read_text()


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (logger.info, "] a 1\n"),
        (logger.warn, "] WRN a 1\n"),
        (logger.warning, "] WRN a 1\n"),
        (logger.error, "] ERR a 1\n"),
        (logger.critical, "] ERR a 1\n"),
    ],
)
def test_line_goes_to_stderr_with_the_callers_place(write, text, capsys):
    write("a %d", 1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "@test_logger.py:" in err
    assert err.endswith(text)


def test_log_takes_a_level(capsys):
    logger.log(logging.WARNING, "a %d", 1)
    assert capsys.readouterr().err.endswith("WRN a 1\n")


def test_stacklevel_names_the_callers_caller(capsys):
    def helper():
        logger.info("from the helper", stacklevel=2)

    helper()
    line = sys._getframe().f_lineno - 1
    assert f"@test_logger.py:{line}]" in capsys.readouterr().err


def test_debug_is_hidden_until_the_level_is_set(capsys):
    logger.debug("hidden")
    logger.setLevel("DEBUG")
    logger.debug("shown")
    assert capsys.readouterr().err.endswith("DBG shown\n")


def test_filters_leave_lines_out(capsys):
    def refuse(record):
        return "secret" not in record.getMessage()

    logger.addFilter(refuse)
    try:
        logger.info("a secret")
        logger.info("open")
    finally:
        logging.getLogger("tpack").removeFilter(refuse)
    assert capsys.readouterr().err.endswith("] open\n")
    logger.info("a secret")
    assert "secret" in capsys.readouterr().err


def test_exception_adds_the_traceback(capsys):
    try:
        raise KeyError("lost")
    except KeyError:
        logger.exception("oops")
    assert capsys.readouterr().err.endswith("KeyError: 'lost'\n")


@pytest.mark.parametrize(("name", "messages"), [("", []), ("tpack", ["a 1"])])
def test_handler_of_tpack_gets_lines_and_of_the_root_none(name, messages):
    handler = Messages()
    logging.getLogger(name).addHandler(handler)
    logger.info("a %d", 1)
    logging.getLogger(name).removeHandler(handler)
    assert handler.seen == messages


def test_directory_is_none_until_set(tmp_path):
    assert logger.get_logger_dir() is None
    assert logger.logdir is None
    logger.set_logger_dir(tmp_path / "run")
    assert logger.get_logger_dir() == logger.logdir == logger.LOG_DIR == str(tmp_path / "run")


def test_file_gets_lines_without_colours(tmp_path):
    logger.set_logger_dir(tmp_path / "run")
    logger.warn("careful")
    first, last = read_log(tmp_path / "run").splitlines()
    assert f"Log directory {tmp_path / 'run'}; command: " in first
    assert last.endswith("WRN careful")
    assert "\033[" not in first + last


def test_another_directory_replaces_the_file(tmp_path):
    logger.set_logger_dir(tmp_path / "one")
    logger.set_logger_dir(tmp_path / "two")
    logger.info("later")
    assert "later" not in read_log(tmp_path / "one")
    assert read_log(tmp_path / "two").count("later") == 1


def test_same_directory_again_keeps_this_runs_content(tmp_path):
    logger.set_logger_dir(tmp_path / "run")
    logger.info("first")
    logger.set_logger_dir(tmp_path / "run")
    logger.info("second")
    text = read_log(tmp_path / "run")
    assert (text.count("first"), text.count("second")) == (1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_same_directory_again_after_a_training_in_it_is_moved_aside(tmp_path):
    for _ in range(2):
        logger.set_logger_dir(tmp_path / "run")
        with DirectoryClaim(tmp_path / "run"):
            logger.set_logger_dir(tmp_path / "run")
    logger.set_logger_dir(tmp_path / "run", action="k")
    logger.set_logger_dir(tmp_path / "run")
    assert [path.name == "run" for path in sorted(tmp_path.iterdir())] == [True, False]


def test_same_directory_with_an_action_obeys_it(tmp_path):
    logger.set_logger_dir(tmp_path / "run")
    logger.info("first")
    logger.set_logger_dir(tmp_path / "run", action="d")
    assert "first" not in read_log(tmp_path / "run")


def test_keep_appends_to_the_old_log(tmp_path):
    (tmp_path / "log.log").write_text("old\n")
    logger.set_logger_dir(tmp_path, action="k")
    assert read_log(tmp_path).startswith("old\n[")


def test_unknown_action_raises_and_keeps_the_directory(tmp_path):
    logger.set_logger_dir(tmp_path / "run")
    with pytest.raises(ConfigError, match="action='x'"):
        logger.set_logger_dir(tmp_path / "other", action="x")
    assert logger.logdir == str(tmp_path / "run")
    assert not (tmp_path / "other").exists()


def test_close_ends_the_file(tmp_path):
    logger.set_logger_dir(tmp_path / "run")
    logger.close_logger_dir()
    logger.info("later")
    assert logger.logdir is None
    assert "later" not in read_log(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "expected"), [(None, "train"), ("a", "train_a" if sys.platform == "win32" else "train:a")]
)
def test_auto_set_dir_is_named_after_the_script(tmp_path, monkeypatch, name, expected):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", types.SimpleNamespace(__file__="/somewhere/train.py"))
    logger.auto_set_dir(name=name)
    assert logger.logdir == str(tmp_path / "train_log" / expected)


def test_auto_set_dir_without_a_script_raises(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", types.SimpleNamespace())
    with pytest.raises(ConfigError, match="there is none: use set_logger_dir"):
        logger.auto_set_dir()


def test_unknown_attribute_raises():
    with pytest.raises(AttributeError, match="no attribute 'infos'"):
        _ = logger.infos


def test_import_adds_no_handler_and_level_set_before_stays():
    code = (
        "import logging; from tpack.utils import logger; tpack = logging.getLogger('tpack')\n"
        "assert tpack.handlers == [] and tpack.propagate\n"
        "tpack.setLevel(logging.ERROR); logger.info('hidden'); logger.error('shown'); logger.error('again')\n"
        "assert len(tpack.handlers) == 1 and not tpack.propagate\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in done.stderr.splitlines()] == ["shown", "again"]


@pytest.mark.parametrize("url", ["nope://bucket/log", pathlib.PurePosixPath("gs://bucket/log")])
def test_url_that_is_none_is_refused_and_no_directory_is_made(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="nope://bucket/log' cannot be used|expected a path on this machine"):
        logger.set_logger_dir(url)
    assert os.listdir(tmp_path) == []


def test_log_of_a_remote_directory_goes_there_and_continues(tmp_path, monkeypatch):
    monkeypatch.setenv("TPACK_REMOTE_CACHE", str(tmp_path / "cache"))
    url, there = f"local://{tmp_path}/there", tmp_path / "there"
    try:
        logger.set_logger_dir(url)
        path = logger.get_logger_dir()
        logger.info("first line")
        logger.set_logger_dir(url)
        assert logger.get_logger_dir() == path
        logger.set_logger_dir(url, action="k")
        logger.info("second line")
        finish_directories()
        assert [text in (there / "log.log").read_text() for text in ("first line", "second line")] == [True, True]
        # A training has ended in it, so another one begins.
        logger.set_logger_dir(url)
        logger.info("third line")
    finally:
        logger.close_logger_dir()
    assert "first line" not in (there / "log.log").read_text()
    assert "third line" in (there / "log.log").read_text()
    (aside,) = set(tmp_path.iterdir()) - {there, tmp_path / "cache"}
    assert "second line" in (aside / "log.log").read_text()
    assert os.listdir(tmp_path / "cache") == []


def test_file_url_is_the_directory_that_it_names(tmp_path):
    logger.set_logger_dir(f"file://{tmp_path}/log")
    try:
        assert logger.get_logger_dir() == str(tmp_path / "log")
    finally:
        logger.close_logger_dir()


def test_directory_that_cannot_be_made_is_an_error_in_words(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="the log directory .*/file/log cannot be used: .*Not a directory"):
        logger.set_logger_dir(tmp_path / "file" / "log")


def test_full_disk_is_said_once_and_without_a_traceback(tmp_path, capsys):
    handler = logger.LogFileHandler(tmp_path / "log.log", encoding="utf-8")
    with pytest.raises(OSError, match="No space left"), open("/dev/full", "w") as full:
        handler.setStream(full).close()
        for text in ("first", "second"):
            handler.handle(logging.LogRecord("tpack", logging.INFO, __file__, 1, text, (), None))
    said = capsys.readouterr().err
    assert said.count("log.log cannot be written ([Errno 28] No space left on device): it lacks lines.") == 1
    assert "Traceback" not in said


ADDRESSES = ["a:1", "b:2", "c:3"]


@pytest.mark.parametrize(
    ("environment", "suffix"),
    [
        ({}, ""),
        ({"RANK": "0", "WORLD_SIZE": "2"}, ""),
        ({"RANK": "1", "WORLD_SIZE": "2"}, "-rank1"),
        ({"RANK": "1", "WORLD_SIZE": "many"}, ""),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4"}, "-rank3"),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}, ""),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, "-rank1"),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "-rank1"),
        ({"TF_CONFIG": json.dumps({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})}, ""),
        *(
            ({"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})}, suffix)
            for cluster, job, index, suffix in [
                ({"worker": ADDRESSES}, "worker", 0, ""),
                ({"worker": ADDRESSES}, "worker", 2, "-rank2"),
                ({"chief": ["d:1"], "worker": ADDRESSES}, "chief", 0, ""),
                ({"chief": ["d:1"], "worker": ADDRESSES}, "worker", 0, "-rank1"),
                ({"chief": ["d:1"], "ps": ADDRESSES}, "ps", 1, "-ps1"),
                ({"chief": ["d:1"], "worker": ADDRESSES}, "evaluator", 0, "-evaluator0"),
            ]
        ),
    ],
)
def test_each_process_of_several_has_a_directory_of_its_own(tmp_path, monkeypatch, environment, suffix):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    logger.set_logger_dir(tmp_path / "log")
    try:
        assert logger.get_logger_dir() == f"{tmp_path}/log{suffix}"
    finally:
        logger.close_logger_dir()
    if suffix:
        place = read_launch_env(environment).place
        job, number = getattr(place, "job", "worker"), getattr(place, "rank", 0)
        assert suffix == (f"-rank{number}" if job in ("chief", "worker") else f"-{job}{place.index}")


def test_remote_storage_is_loaded_for_a_url_only(tmp_path):
    code = (
        "import sys; from tpack.utils import logger; logger.set_logger_dir(sys.argv[1]); logger.close_logger_dir();"
        "print('tpack.utils.remote.directories' in sys.modules)"
    )
    environment = {**os.environ, "TPACK_REMOTE_CACHE": str(tmp_path / "cache")}
    for directory, is_loaded in ((f"{tmp_path}/here", "False"), (f"local://{tmp_path}/there", "True")):
        command = [sys.executable, "-c", code, directory]
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        assert done.stdout.split() == [is_loaded]
