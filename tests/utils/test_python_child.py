"""JSON in and out of Python functions in new interpreters."""

import json
import subprocess
import sys

import pytest

from tests.helpers.source import ROOT
from tpack.utils.python_child import ChildError, python_child, python_command

LONG = 60.0


def python(code):
    return [sys.executable, "-S", "-c", f"import json, os, sys; {code}"]


def test_a_function_is_called_with_arguments_where_this_process_finds_modules(tmp_path, monkeypatch):
    (tmp_path / "answering.py").write_text(
        "import json, sys\ndef answer(a, b):\n    print(json.dumps({'sum': a + b, 'got': json.load(sys.stdin)}))\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    command = python_command("answering", "answer", {"a": 1, "b": 2})
    assert python_child(command, {"c": [3]}, timeout_secs=LONG) == {"sum": 3, "got": {"c": [3]}}
    command = python_command("answering", "answer", {"a": "x", "b": "y"}, path=[str(tmp_path)])
    assert python_child(command, 5, timeout_secs=LONG) == {"sum": "xy", "got": 5}


def test_the_result_of_the_function_is_the_exit_code(tmp_path):
    (tmp_path / "ending.py").write_text("def end(code):\n    return code\n", encoding="utf-8")
    for code, expected in ((3, 3), (None, 0)):
        command = python_command("ending", "end", {"code": code}, path=[str(tmp_path)])
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == expected


def test_other_output_does_no_harm():
    assert python_child(python("print('{'); print('{\"a\": 1}'); print('[2]'); print('end')"), timeout_secs=LONG) == {
        "a": 1
    }


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (python("print('{\"a\": 1}'); sys.exit('no luck')"), "exit code 1: no luck"),
        (python("os.abort()"), "exit code -6: it printed nothing"),
        (python("print(5)"), "it ended without an answer"),
        (["/no/such/program"], "it could not be started: "),
    ],
)
def test_a_failure_is_told_in_a_few_words(command, message):
    with pytest.raises(ChildError, match=message):
        python_child(command, timeout_secs=LONG)


def test_a_child_that_takes_too_long_is_killed():
    with pytest.raises(ChildError, match="killed after 0.2 s"):
        python_child(python("sys.stdin.read(); import time; time.sleep(1000)"), timeout_secs=0.2)


def test_without_a_request_there_is_no_input():
    found = python_child(python("print(json.dumps({'input': sys.stdin.read()}))"), timeout_secs=LONG)
    assert json.dumps(found) == '{"input": ""}'
