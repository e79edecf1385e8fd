"""How long files and functions are: a warning where one should be thought about again, a failure where it is too long.

A function is measured without its docstring: explaining more should never be a reason to split one.
"""

import ast
import warnings

import pytest

from tests.helpers.source import assert_none, functions, modules_under

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


def too_long(sizes, limits):
    """Warn of what is above the first limit; return what is above the second.

    Args:
        sizes: pairs of what it is and how many lines it has.
        limits: the number of lines to warn above, and that to fail above.
    """
    warn_above, fail_above = limits
    for what, lines in sizes:
        if warn_above < lines <= fail_above:
            warnings.warn(f"{what} has {lines} lines, more than {warn_above}: think again", stacklevel=2)
    return [f"{what} has {lines} lines, more than {fail_above}" for what, lines in sizes if lines > fail_above]


def test_no_file_is_too_long():
    assert_none(too_long([(str(module), len(module.text.splitlines())) for module in MODULES], FILE_LINES))


def test_no_function_is_too_long():
    found = [(module, function) for module in MODULES for function in functions(module.tree)]
    sizes = [(f"{module}:{function.lineno} {function.name}", code_lines(function)) for module, function in found]
    assert_none(too_long(sizes, FUNCTION_LINES))


def test_too_long_is_silent_then_warns_then_fails():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert too_long([("it", 40)], FUNCTION_LINES) == []
        assert too_long([("it", 71)], FUNCTION_LINES) == ["it has 71 lines, more than 70"]
    with pytest.warns(UserWarning, match="it has 41 lines, more than 40"):
        assert too_long([("it", 41)], FUNCTION_LINES) == []


def test_code_lines_leaves_the_docstring_out():
    text = 'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n'
    assert code_lines(ast.parse(text).body[0]) == 2
