"""Notes on lines of a source that a person must look at, found without knowing its imports."""

import ast
import builtins
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass

_DEVICE = re.compile(r"(^|/)(device:)?gpu:\d+$", re.IGNORECASE)
_PYTHON_2 = {"xrange", "unicode", "basestring", "raw_input", "unichr", "long", "execfile"}
_PYTHON_2_METHODS = ("iteritems", "itervalues", "iterkeys", "has_key")
_PYTHON_2_MODULES = ("cPickle", "Queue", "StringIO", "cStringIO", "urllib2", "ConfigParser", "__builtin__")
_TO_DIMENSIONS = ("disable_v2_behavior", "disable_v2_tensorshape")
_MODULES = {
    "imp": "use importlib",
    "distutils": "use setuptools, shutil or packaging.version",
    "asyncore": "use asyncio",
    "tensorflow.python": "it is inside of TensorFlow and may have moved; use the public name",
}


@dataclass(frozen=True, order=True)
class Note:
    """A line of the original source, and a note on it."""

    line: int
    text: str


def python_2(tree: ast.AST) -> list[Note]:
    """Return the names that Python 2 had, which may stand in branches that Python 3 never takes.

    Its own names do not count, nor calls of ``xrange`` that can be ``range``.
    """
    older = _PYTHON_2 - _bound(tree)
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)] if is_xrange_older(tree) else []
    rewritten = {id(called) for called in calls if isinstance(called, ast.Name) and called.id == "xrange"}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in rewritten]
    return sorted(Note(node.lineno, f"{node.id} is Python 2's; use 2to3") for node in names if node.id in older)


def is_xrange_older(tree: ast.AST) -> bool:
    """Tell whether ``xrange(...)`` in a source is Python 2's and can be ``range(...)``: it binds neither name."""
    return not {"xrange", "range"} & _bound(tree)


def _bound(tree: ast.AST) -> set[str]:
    """Return the names that a source binds anywhere; ``range`` of six is Python's."""
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            given = [alias for alias in node.names if (module, alias.name) != ("six.moves", "range")]
            bound |= {alias.asname or alias.name for alias in given}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
    return bound


def unbound(source: str, tree: ast.AST) -> dict[str, int]:
    """Return the global names that a source uses and does not bind, such as those of a star import, and their lines."""
    module = symtable.symtable(source, "source", "exec")
    tables = [module]
    for table in tables:
        tables += table.get_children()
    used, bound = set[str](), {*dir(builtins), "__file__", "__path__"}
    for table in tables:
        for symbol in table.get_symbols():
            is_here = table is module or symbol.is_declared_global()
            if is_here and (symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()):
                bound.add(symbol.get_name())
            if symbol.is_referenced() and (table is module or symbol.is_global()):
                used.add(symbol.get_name())
    lines: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in used - bound:
            lines[node.id] = min(node.lineno, lines.get(node.id, node.lineno))
    return lines


def looks(tree: ast.AST) -> list[Note]:
    """Return the notes on a source, in the order of lines."""
    tried = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Try) for inner in ast.walk(node)}
    has_dimensions = _has_dimensions(tree)
    found: set[Note] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update(_imports(node, is_tried=id(node) in tried))
        elif isinstance(node, ast.expr):
            found.update(_expressions(node, has_dimensions=has_dimensions))
    return sorted(found)


def _has_dimensions(tree: ast.AST) -> bool:
    """Tell whether the top level of a source makes sizes of shapes dimensions, as in TensorFlow 1."""
    statements = [node.value for node in getattr(tree, "body", []) if isinstance(node, ast.Expr)]
    called = [node.func for node in statements if isinstance(node, ast.Call)]
    return any(getattr(node, "attr", getattr(node, "id", None)) in _TO_DIMENSIONS for node in called)


def reads_of_sizes(tree: ast.AST) -> list[int]:
    """Return the lines that read ``value`` of sizes of shapes, which TensorFlow 2 has as plain numbers.

    Sizes are those of ``x.shape`` and ``x.get_shape()``, of variables that were assigned them, and of loops over them.
    """
    if _has_dimensions(tree):
        return []
    shapes, sizes = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_shape(node.value, shapes):
            for target in node.targets:
                (shapes if isinstance(target, ast.Name) else sizes).update(_targets(target))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
            sizes.update(*map(_targets, node.targets) if _is_shape(node.value.value, shapes) else ())
        elif isinstance(node, ast.For | ast.comprehension) and _is_shape(node.iter, shapes):
            sizes.update(_targets(node.target))
    reads = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "value"]
    # The element of a comprehension comes before its loop, and shapes may be used before the line that assigns them.
    return sorted(
        node.lineno
        for node in reads
        if getattr(node.value, "id", None) in sizes
        or (isinstance(node.value, ast.Subscript) and _is_shape(node.value.value, shapes))
    )


def _is_shape(node: ast.expr, shapes: set[str]) -> bool:
    """Tell whether this is a shape: ``x.shape``, ``x.get_shape()``, a slice of one, or one of some variables."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) and _is_shape(node.value, shapes)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "get_shape"
    return (isinstance(node, ast.Attribute) and node.attr == "shape") or getattr(node, "id", None) in shapes


def _targets(node: ast.expr) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _imports(node: ast.Import | ast.ImportFrom, *, is_tried: bool) -> Iterator[Note]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    if isinstance(node, ast.ImportFrom) and node.level:
        return
    for name in names:
        if name in _PYTHON_2_MODULES and not is_tried:
            yield Note(node.lineno, f"the module {name} is Python 2's; use 2to3")
        for module, instead in _MODULES.items():
            if f"{name}.".startswith(f"{module}."):
                yield Note(node.lineno, f"import of {name}: {instead}")


def _expressions(node: ast.expr, *, has_dimensions: bool) -> Iterator[Note]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _DEVICE.search(node.value):
        yield Note(node.lineno, f"the device {node.value!r} is fixed: towers are placed by the trainer")
    elif isinstance(node, ast.Attribute) and node.attr == "value" and _is_size(node.value) and not has_dimensions:
        yield Note(node.lineno, "sizes of shapes are numbers: leave out .value, or call tf.disable_v2_tensorshape()")
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "tostring" and not node.args and not node.keywords and not _makes_array(node.func.value):
            yield Note(node.lineno, "numpy has no tostring(): use tobytes() if this is an array")
        elif node.func.attr in _PYTHON_2_METHODS and getattr(node.func.value, "id", None) != "six":
            yield Note(node.lineno, f"dicts of Python 3 have no {node.func.attr}(); use 2to3")


def _is_size(node: ast.expr) -> bool:
    """Tell whether this is one size of a shape, such as ``x.shape[1]`` or ``x.get_shape()[1]``."""
    if not isinstance(node, ast.Subscript):
        return False
    shape = node.value.func if isinstance(node.value, ast.Call) else node.value
    return isinstance(shape, ast.Attribute) and shape.attr in ("shape", "get_shape")


def _makes_array(node: ast.expr) -> bool:
    """Tell whether this is certainly an array, of ``astype`` or OpenCV's ``imencode``: its tostring() is rewritten."""
    node, wanted = (node.value, "imencode") if isinstance(node, ast.Subscript) else (node, "astype")
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == wanted
