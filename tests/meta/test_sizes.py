"""How long files and functions are: a warning where one should be thought about again, a failure where it is too long.

A function is measured without its docstring: explaining more should never be a reason to split one.
"""

import ast
import warnings

import pytest

from tests.helpers.source import functions, modules_under

FILE_LINES = (300, 450)
FUNCTION_LINES = (40, 70)

MODULES = modules_under("tpack")


def code_lines(function):
    """Return the number of lines of a function from its ``def`` on, less its docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    docstring = function.body[0]
    return lines - (docstring.end_lineno - docstring.lineno + 1)


def judge(what, lines, limits):
    """Warn above the first limit, fail above the second."""
    warn_above, fail_above = limits
    assert lines <= fail_above, f"{what} has {lines} lines, more than {fail_above}: split it"
    if lines > warn_above:
        warnings.warn(f"{what} has {lines} lines, more than {warn_above}: think again", stacklevel=2)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_file_is_not_too_long(module):
    judge(str(module), len(module.text.splitlines()), FILE_LINES)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_no_function_is_too_long(module):
    for function in functions(module.tree):
        judge(f"{module}:{function.lineno} {function.name}", code_lines(function), FUNCTION_LINES)


def test_judge_is_silent_then_warns_then_fails():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge("it", 40, FUNCTION_LINES)
    with pytest.warns(UserWarning, match="it has 41 lines, more than 40"):
        judge("it", 41, FUNCTION_LINES)
    with pytest.raises(AssertionError, match="it has 71 lines, more than 70"):
        judge("it", 71, FUNCTION_LINES)


def test_code_lines_leaves_the_docstring_out():
    text = 'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n'
    assert code_lines(ast.parse(text).body[0]) == 2
