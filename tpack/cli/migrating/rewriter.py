"""Rewriting of one source with LibCST, which keeps formatting and comments."""

import ast
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import (
    ExpressionContext,
    ExpressionContextProvider,
    MetadataWrapper,
    PositionProvider,
    QualifiedNameProvider,
    QualifiedNameSource,
)

from tpack.cli.migrating import lint, names
from tpack.cli.migrating.lint import Note
from tpack.cli.migrating.usage import TF_ROOTS, TFV1, Usage, after_tf, bound_by_imports, module_of, root_name
from tpack.errors import ConfigError

# Imports of these stay: TensorFlow has them under the same names.
_STAYS = ("tensorflow.python", "tensorflow.examples", "tensorflow.keras", "tensorflow.compat", "tensorflow.core")
_DIFFERENCE = (cst.IsNot, cst.NotEqual)
_SAMENESS = (cst.Is, cst.Equal, *_DIFFERENCE)
_SPACE = cst.SimpleWhitespace(" ")
_IN_FULL: dict[type[cst.BaseAugOp], type[cst.BaseBinaryOp]] = {
    cst.AddAssign: cst.Add,
    cst.SubtractAssign: cst.Subtract,
    cst.MultiplyAssign: cst.Multiply,
    cst.DivideAssign: cst.Divide,
}
_ONLY = tuple(f"tensorflow.{name}" for name in names.ONLY_IN_TF1)


@dataclass(frozen=True)
class Migrated:
    """The result for a source.

    Attributes:
        source: the new source.
        changes: notes on changes.
        looks: notes on lines that a person must look at.
    """

    source: str
    changes: list[Note]
    looks: list[Note]


def migrate_source(source: str, *, gives_tensorflow: bool = False) -> Migrated:
    """Rewrite a source for tpack, Python 3.12 and numpy 2; a second time changes nothing.

    Args:
        source: the source.
        gives_tensorflow: whether its ``tf`` is also that of files that need `tpack.tf1`; see `usage`.

    Returns:
        The new source, and notes with the lines of the old one.

    Raises:
        ConfigError: This Python refuses it.
        RecursionError: It is nested too deep.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
            _check_depth(tree)
            module = cst.parse_module(source)
            # Refuses more than the parser, such as a return outside of a function.
            compile(tree, "<source>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, cst.ParserSyntaxError) as error:
        line = getattr(error, "lineno", None) or getattr(error, "raw_line", 1)
        raise ConfigError(f"line {line} is not Python 3; use 2to3 first if it is Python 2") from error
    wrapper = MetadataWrapper(module)
    usage = Usage(bound_by_imports(tree), lint.unbound(source, tree), gives_tensorflow=gives_tensorflow)
    usage.read(wrapper)
    rewriter = _Rewriter(usage, is_xrange_older=lint.is_xrange_older(tree))
    changed = wrapper.visit(rewriter)
    looks = {*rewriter.looks, *rewriter.are_open(lint.looks(tree)), *lint.python_2(tree), *usage.not_given_by_stars()}
    source, notes = _with_sizes(changed.code, tree)
    return Migrated(source, [*rewriter.changes, *notes], sorted(looks))


def _check_depth(tree: ast.AST) -> None:
    """Refuse a tree of more levels than the recursion limit, for which LibCST may take hours or end the process."""
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > sys.getrecursionlimit():
            raise RecursionError(f"the source has more than {depth - 1} levels")
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def _with_sizes(source: str, tree: ast.AST) -> tuple[str, list[Note]]:
    """Let sizes of shapes have ``value`` below the import of TensorFlow, if the original `tree` reads it."""
    lines = lint.reads_of_sizes(tree)
    if not lines:
        return source, []
    body = ast.parse(source).body
    for place, node in enumerate(body):
        alias = node.names[0] if isinstance(node, ast.Import) and len(node.names) == 1 else None
        if alias is None or alias.name not in TF_ROOTS[:2] or alias.asname is None:
            continue
        text = f"{alias.asname}.disable_v2_tensorshape()"
        end = node.end_lineno or node.lineno
        if place + 1 < len(body) and body[place + 1].lineno == end:
            return source, []
        whole = source.splitlines(keepends=True)
        newline = "" if whole[end - 1].endswith("\n") else "\n"
        made = "".join([*whole[:end], f"{newline}{text}\n", *whole[end:]])
        return made, [Note(lines[0], f"{text} at the import, for .value of sizes")]
    return source, []


class _Rewriter(cst.CSTTransformer):
    """Rewrites a source, and notes changes and lines to look at."""

    METADATA_DEPENDENCIES = (ExpressionContextProvider, PositionProvider, QualifiedNameProvider)

    def __init__(self, usage: Usage, *, is_xrange_older: bool) -> None:
        super().__init__()
        self._usage = usage
        self._is_xrange_older = is_xrange_older
        self._tf = usage.home_of_tensorflow()
        self.changes: list[Note] = []
        self.looks: list[Note] = []
        self._made_public = set[int]()

    def are_open(self, notes: Iterable[Note]) -> list[Note]:
        """Return the notes on a source that are not on imports from inside of TensorFlow that became public ones."""
        is_import = lambda note: note.text.startswith("import of tensorflow.python")  # noqa: E731
        return [note for note in notes if note.line not in self._made_public or not is_import(note)]

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        """Rewrite the imports of a line, which may become several lines."""
        body = self._statements(original_node.body, updated_node.body)
        if len(body) == len(updated_node.body) or len(updated_node.body) > 1:
            return updated_node.with_changes(body=body)
        first = updated_node.with_changes(body=body[:1], trailing_whitespace=cst.TrailingWhitespace())
        middle = [cst.SimpleStatementLine([statement]) for statement in body[1:-1]]
        last = updated_node.with_changes(body=body[-1:], leading_lines=())
        return cst.FlattenSentinel([first, *middle, last])

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.SimpleStatementSuite:
        """Rewrite imports behind a colon."""
        return updated_node.with_changes(body=self._statements(original_node.body, updated_node.body))

    def _statements(
        self, before: Sequence[cst.BaseSmallStatement], after: Sequence[cst.BaseSmallStatement]
    ) -> list[cst.BaseSmallStatement]:
        body: list[cst.BaseSmallStatement] = []
        for old, new in zip(before, after, strict=True):
            made = self._import(old) if isinstance(old, cst.Import | cst.ImportFrom) else [new]
            if isinstance(old, cst.Import | cst.ImportFrom) and made != [old]:
                semicolon = getattr(new, "semicolon", cst.MaybeSentinel.DEFAULT)
                made = [*made[:-1], made[-1].with_changes(semicolon=semicolon)]
                text = "; ".join(cst.Module([]).code_for_node(one).strip(" ;") for one in made)
                self._changed(old, " ".join(text.split()))
            body += made
        return body

    def _import(self, node: cst.BaseSmallStatement) -> list[cst.BaseSmallStatement]:
        if isinstance(node, cst.ImportFrom):
            return self._import_from(node)
        groups: list[list[cst.ImportAlias] | cst.ImportFrom] = []
        for alias in node.names if isinstance(node, cst.Import) else ():
            made = self._alias(alias)
            if isinstance(made, cst.ImportFrom):
                groups.append(made)
            elif groups and isinstance(groups[-1], list):
                groups[-1].append(made)
            else:
                groups.append([made])
        if len(groups) == 1 and isinstance(groups[0], list):
            same = all(a is b for a, b in zip(groups[0], getattr(node, "names", ()), strict=True))
            return [node if same else node.with_changes(names=groups[0])]
        return [group if isinstance(group, cst.ImportFrom) else cst.Import(_closed(group)) for group in groups]

    def _alias(self, alias: cst.ImportAlias) -> cst.ImportAlias | cst.ImportFrom:
        """Return the new form of ``import x`` or ``import x as y``."""
        name = get_full_name_for_node(alias.name) or ""
        if name == "collections" and alias.asname is None and self._usage.uses_older_collections:
            return alias.with_changes(name=_dotted("collections.abc"))
        if name in names.MOVED and alias.asname is not None:
            return alias.with_changes(name=_dotted(names.MOVED[name]))
        if names.is_in(name, ["tensorpack"]):
            self._check_module(alias, name)
            return alias.with_changes(name=_dotted(name.replace("tensorpack", "tpack", 1)))
        if name == "tensorflow.compat.v1" and alias.asname is not None:
            only = any(names.is_in(used, names.ONLY_IN_TF1) for used in after_tf(self._usage.used))
            return alias.with_changes(name=_dotted("tpack.tf1")) if only else alias
        if name in names.WAS_INPUT_DATA and alias.evaluated_alias:
            home, _, own = names.INPUT_DATA.rpartition(".")
            today = _renamed_to(alias, own, alias.evaluated_alias)
            return cst.ImportFrom(_dotted(home), _closed([today]))
        if not names.is_in(name, ["tensorflow"]) or names.is_in(name, _STAYS):
            self._look_at_examples(alias, name)
            return alias
        return self._alias_of_tensorflow(alias, name)

    def _alias_of_tensorflow(self, alias: cst.ImportAlias, name: str) -> cst.ImportAlias | cst.ImportFrom:
        if "tensorflow.function" in self._usage.used:
            return alias
        given = alias.evaluated_alias
        if name == "tensorflow" or given is None:
            asname = alias.asname or cst.AsName(cst.Name("tensorflow"))
            return alias.with_changes(name=_dotted(self._tf), asname=asname)
        name = names.public_contrib(name)
        package, _, last = name.rpartition(".")
        package = self._tensorflow_module(package, name)
        return cst.ImportFrom(_dotted(package), _closed([_renamed_to(alias, last, given)]))

    def _tensorflow_module(self, module: str, whole: str) -> str:
        """Return the present module of a module of TensorFlow."""
        if names.is_in(whole, _ONLY):
            return module.replace("tensorflow", "tpack.tf1", 1)
        return module.replace("tensorflow", self._tf if module == "tensorflow" else "tensorflow.compat.v1", 1)

    def _import_from(self, node: cst.ImportFrom) -> list[cst.BaseSmallStatement]:
        module = module_of(node)
        if not names.is_in(module, ["tensorflow", "tensorpack"]) and module != "collections":
            return self._import_from_others(node, module)
        if module in names.WAS_INPUT_DATA:
            return [node.with_changes(module=_dotted(names.INPUT_DATA))]
        imported = () if isinstance(node.names, cst.ImportStar) else node.names
        if home := names.public_estimator(module, (str(alias.evaluated_name) for alias in imported)):
            self._made_public.add(self.get_metadata(PositionProvider, node).start.line)
            return [node.with_changes(module=_dotted(home))]
        if names.is_in(module, _STAYS) and not _reads_digits(node, module):
            self._look_at_examples(node, module)
            return [node]
        if isinstance(node.names, cst.ImportStar):
            moved = self._moved(node, self._home(node, module, "*"))
            lost = self._usage.lost_names() if module == "tensorpack" else {}
            more = [cst.ImportFrom(_dotted(home), [cst.ImportAlias(cst.Name(name))]) for name, home in lost.items()]
            return [moved, *more]
        by_home: dict[str, list[cst.ImportAlias]] = {}
        for alias in node.names:
            home, today = self._home_of_alias(node, module, alias)
            by_home.setdefault(home, []).append(today)
        if len(by_home) == 1:
            ((home, aliases),) = by_home.items()
            return [self._moved(node, home).with_changes(names=aliases) if home != module else node]
        return [cst.ImportFrom(_dotted(home), _closed(aliases)) for home, aliases in by_home.items()]

    def _import_from_others(self, node: cst.ImportFrom, module: str) -> list[cst.BaseSmallStatement]:
        """Rewrite an import of what SciPy or scikit-learn moved, and note what is gone."""
        if module in names.MOVED:
            return [node.with_changes(module=_dotted(names.MOVED[module]))]
        if isinstance(node.names, cst.ImportStar) or node.relative:
            return [node]
        by_home: dict[str, list[cst.ImportAlias]] = {}
        for alias in node.names:
            whole = f"{module}.{alias.evaluated_name}"
            if whole in names.GONE:
                self._look(node, f"{whole} is not there: {names.GONE[whole]}")
            home, _, name = names.MOVED.get(whole, whole).rpartition(".")
            today = _renamed_to(alias, name, str(alias.evaluated_alias or alias.evaluated_name))
            by_home.setdefault(home, []).append(today)
        if not any(f"{module}.{alias.evaluated_name}" in names.MOVED for alias in node.names):
            return [node]
        return [
            cst.ImportFrom(_dotted(home), _closed(aliases)) if home else cst.Import(_closed(aliases))
            for home, aliases in by_home.items()
        ]

    def _look_at_examples(self, node: cst.CSTNode, module: str) -> None:
        if names.is_in(module, ["tensorflow.examples"]):
            self._look(node, f"import of {module}: {names.GONE['tensorflow.examples']}")

    def _moved(self, node: cst.ImportFrom, home: str) -> cst.ImportFrom:
        return node if module_of(node) == home else node.with_changes(module=_dotted(home))

    def _home_of_alias(self, node: cst.ImportFrom, module: str, alias: cst.ImportAlias) -> tuple[str, cst.ImportAlias]:
        """Return the present module of an imported name, and the name."""
        whole = f"{module}.{alias.evaluated_name}"
        if whole in TFV1 and self._tf == "tpack.tf1":
            return "tpack", _renamed_to(alias, "tf1", str(alias.evaluated_alias or alias.evaluated_name))
        if whole not in names.WAS_INPUT_DATA:
            return self._home(node, module, str(alias.evaluated_name)), alias
        home, _, name = names.INPUT_DATA.rpartition(".")
        return home, _renamed_to(alias, name, str(alias.evaluated_alias or alias.evaluated_name))

    def _home(self, node: cst.ImportFrom, module: str, name: str) -> str:
        """Return the present module of an imported name."""
        if names.is_in(module, _STAYS):
            self._look_at_examples(node, module)
            return module
        if module == "collections":
            return "collections.abc" if name in names.ABSTRACT else module
        if names.is_in(module, ["tensorpack"]):
            path = module.removeprefix("tensorpack").removeprefix(".")
            self._check_module(node, module)
            if name != "*" and names.has_module(path) and not names.has_name(path, name):
                self._look(node, f"{module}.{name} is not there: tpack has no such name")
            return names.module_of(path, name)
        if f"{module}.{name}" in ("tensorflow.python", "tensorflow.keras"):
            return module
        module = names.public_contrib(module)
        home = self._tensorflow_module(module, f"{module}.{name}")
        inside = home.removeprefix("tpack.tf1.")
        if inside.startswith("contrib.") and not names.has_contrib(inside):
            self._look(node, f"{module} is not there: {names.reason_for_missing(inside) or 'import it from above'}")
        elif reason := names.reason_for_missing(f"{module}.{name}".removeprefix("tensorflow.")):
            self._look(node, f"{module}.{name} is not there: {reason}")
        return home

    def _check_module(self, node: cst.CSTNode, module: str) -> None:
        if not names.has_module(module.removeprefix("tensorpack").removeprefix(".")):
            self._look(node, f"tpack has no module like {module}")

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        """Rename ``tensorpack`` where it is the package."""
        is_it = original_node.value == "tensorpack" and "tensorpack" in self._whole_names(original_node)
        return updated_node.with_changes(value="tpack") if is_it else updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        """Rename what moved, and note what is gone."""
        is_loaded = self.get_metadata(ExpressionContextProvider, original_node, None) is ExpressionContext.LOAD
        if is_loaded and original_node.attr.value == "updates" and self._usage.uses_keras:
            # Keras 3 has none, and the trainer runs the updates of layers by itself.
            self._changed(original_node, "updates of Keras, which version 3 does not have, to those that are there")
            return cst.Call(
                cst.Name("getattr"),
                [cst.Arg(updated_node.value), cst.Arg(cst.SimpleString('"updates"')), cst.Arg(cst.List([]))],
                lpar=updated_node.lpar,
                rpar=updated_node.rpar,
            )
        is_own = isinstance(original_node.value, cst.Name) and original_node.value.value == "self"
        if original_node.attr.value == "_outputs" and self._usage.edits_graphs and not is_own:
            self._changed(original_node, "_outputs of an operation to outputs")
            return updated_node.with_changes(attr=cst.Name("outputs"))
        for whole in self._whole_names(original_node):
            self._note_gone(original_node, whole)
            made = self._renamed(whole, updated_node)
            if made is not updated_node:
                self._changed(original_node, f"{whole} to {cst.Module([]).code_for_node(made)}")
            return made
        return updated_node

    def _renamed(self, whole: str, node: cst.Attribute) -> cst.BaseExpression:
        package, _, name = whole.rpartition(".")
        if whole in names.OUT_OF_TENSORFLOW and self._usage.tensorflow:
            home, _, name = f"{self._usage.tensorflow}.{names.OUT_OF_TENSORFLOW[whole]}".rpartition(".")
            return node.with_changes(value=_dotted(home), attr=cst.Name(name))
        if package == "numpy" and name in names.NUMPY and names.NUMPY[name] not in self._usage.bound:
            return cst.Name(names.NUMPY[name], lpar=node.lpar, rpar=node.rpar)
        if package == "numpy" and name in names.NUMPY_RENAMED:
            return node.with_changes(attr=cst.Name(names.NUMPY_RENAMED[name]))
        if whole == "time.clock":
            return node.with_changes(attr=cst.Name("perf_counter"))
        if package == "collections" and name in names.ABSTRACT and isinstance(node.value, cst.Name):
            is_plain = node.value.value == "collections"
            return node.with_changes(value=_dotted("collections.abc")) if is_plain else node
        return node

    def _note_gone(self, node: cst.Attribute, whole: str) -> None:
        module, _, name = whole.removeprefix("tensorpack.").rpartition(".")
        if whole.startswith("tensorpack.") and names.has_module(module) and not names.has_name(module, name):
            self._look(node, f"{whole} is not there: tpack has no such name")
        if whole in names.GONE:
            self._look(node, f"{whole} is not there: {names.GONE[whole]}")
        for name in after_tf([whole]):
            reason = names.reason_for_missing(name)
            # A missing namespace is noted, but not each name in it.
            if reason and names.reason_for_missing(name.rpartition(".")[0]) is None:
                self._look(node, f"tf.{name} is not there: {reason}")

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Rewrite what Python and numpy removed: names, an argument, and numbers made of arrays."""
        if self._is_xrange_older and get_full_name_for_node(original_node.func) == "xrange":
            self._changed(original_node, "xrange to range")
            return updated_node.with_changes(func=updated_node.func.with_changes(value="range"))
        if "numpy.reshape" in self._whole_names(original_node.func):
            return self._with_shape_by_its_place(original_node, updated_node)
        if isinstance(original_node.func, cst.Name) and original_node.func.value in ("chr", "float", "int"):
            return self._with_number_of_an_array(original_node, updated_node)
        function, inner = updated_node.func, getattr(updated_node.func, "value", None)
        if not isinstance(function, cst.Attribute) or function.attr.value != "tostring" or updated_node.args:
            return updated_node
        made, wanted = (inner.value, "imencode") if isinstance(inner, cst.Subscript) else (inner, "astype")
        if not (isinstance(made, cst.Call) and isinstance(made.func, cst.Attribute)) or made.func.attr.value != wanted:
            return updated_node
        self._changed(original_node, "tostring() to tobytes()")
        return updated_node.with_changes(func=function.with_changes(attr=cst.Name("tobytes")))

    def leave_AugAssign(self, original_node: cst.AugAssign, updated_node: cst.AugAssign) -> cst.AugAssign | cst.Assign:
        """Write ``v += x`` of a variable in full: it made a tensor, which today's variables refuse."""
        operator = _IN_FULL.get(type(original_node.operator))
        target = original_node.target
        found = self.get_metadata(QualifiedNameProvider, target, set())
        if (
            operator is None
            or not isinstance(target, cst.Name)
            or not {one.name for one in found} & self._usage.variables
        ):
            return updated_node
        self._changed(original_node, "an augmented assignment to a variable to one in full, which makes a tensor")
        value = updated_node.value
        if (
            not isinstance(value, cst.Call | cst.Name | cst.Attribute | cst.Subscript | cst.BaseNumber)
            and not value.lpar
        ):
            value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        whole = cst.BinaryOperation(cst.Name(target.value), operator(), value)
        return cst.Assign([cst.AssignTarget(cst.Name(target.value))], whole, updated_node.semicolon)

    def leave_Comparison(self, original_node: cst.Comparison, updated_node: cst.Comparison) -> cst.BaseExpression:
        """Ask with ``isinstance`` for tensors, which TensorFlow 2 makes of a subclass."""
        call, target = original_node.left, original_node.comparisons[0]
        is_type = isinstance(call, cst.Call) and get_full_name_for_node(call.func) == "type" and len(call.args) == 1
        if not is_type or len(original_node.comparisons) > 1 or not isinstance(target.operator, _SAMENESS):
            return updated_node
        if "Tensor" not in after_tf(self._whole_names(target.comparator)):
            return updated_node
        self._changed(original_node, "a comparison of type(...) with tf.Tensor to isinstance")
        given = (
            cst.ensure_type(updated_node.left, cst.Call)
            .args[0]
            .with_changes(comma=cst.Comma(cst.SimpleWhitespace(""), _SPACE))
        )
        made = cst.Call(cst.Name("isinstance"), [given, cst.Arg(updated_node.comparisons[0].comparator)])
        if not isinstance(target.operator, _DIFFERENCE):
            return made.with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)
        return cst.UnaryOperation(cst.Not(_SPACE), made, updated_node.lpar, updated_node.rpar)

    def _with_number_of_an_array(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Squeeze an array of one element in ``int(...)`` and the like, which numpy 2 refuses to turn into a number."""
        inner = original_node.args[0].value if len(original_node.args) == 1 else None
        if not isinstance(inner, cst.Call) or not isinstance(inner.func, cst.Attribute):
            return updated_node
        root: cst.BaseExpression = inner.func
        while isinstance(root, cst.Attribute):
            root = root.value
        keywords = [one.keyword.value for one in inner.args if one.keyword]
        num_places = len(inner.args) - len(keywords)
        for whole in self._whole_names(inner.func) if self._whole_names(root) == ["numpy"] else []:
            draws = whole in names.DRAWS and ("size" in keywords or num_places >= names.DRAWS[whole])
            if whole in names.MAY_BE_ARRAY or draws:
                self._changed(original_node, f"{whole}(...) as a number to that of its only element")
                given = updated_node.args[0]
                squeezed = cst.Call(cst.Attribute(root, cst.Name("squeeze")), [cst.Arg(given.value)])
                return updated_node.with_changes(args=[given.with_changes(value=squeezed)])
        return updated_node

    def _with_shape_by_its_place(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Pass ``newshape`` by position: older numpy has no other name for it, and newer numpy not this one."""
        keywords = [one.keyword.value if one.keyword else "" for one in updated_node.args]
        if "newshape" not in keywords:
            return updated_node
        at = keywords.index("newshape")
        first = updated_node.args[0]
        if at != 1 or first.keyword or first.star:
            self._look(original_node, "numpy.reshape has no newshape: give the array and the shape by their places")
            return updated_node
        self._changed(original_node, "numpy.reshape(newshape=) to its second argument")
        plain = updated_node.args[1].with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(args=(first, plain, *updated_node.args[2:]))

    def _whole_names(self, node: cst.CSTNode) -> list[str]:
        # Looking up every name of a source would take most of the time.
        if root_name(node) not in self._usage.roots:
            return []
        found = self.get_metadata(QualifiedNameProvider, node, set())
        return sorted(one.name for one in found if one.source is QualifiedNameSource.IMPORT)

    def _changed(self, node: cst.CSTNode, text: str) -> None:
        self.changes.append(Note(self.get_metadata(PositionProvider, node).start.line, text))

    def _look(self, node: cst.CSTNode, text: str) -> None:
        self.looks.append(Note(self.get_metadata(PositionProvider, node).start.line, text))


def _reads_digits(node: cst.ImportFrom, module: str) -> bool:
    """Tell whether a statement imports the module that reads digits from a package of TensorFlow."""
    aliases = () if isinstance(node.names, cst.ImportStar) else node.names
    return any(f"{module}.{alias.evaluated_name}" in names.WAS_INPUT_DATA for alias in aliases)


def _renamed_to(alias: cst.ImportAlias, name: str, given: str) -> cst.ImportAlias:
    """Return the import of another name under the source's name."""
    return alias.with_changes(name=cst.Name(name), asname=None if given == name else cst.AsName(cst.Name(given)))


def _dotted(name: str) -> cst.Attribute | cst.Name:
    package, _, last = name.rpartition(".")
    return cst.Attribute(_dotted(package), cst.Name(last)) if package else cst.Name(last)


def _closed(aliases: list[cst.ImportAlias]) -> list[cst.ImportAlias]:
    """Return imported names without a comma after the last."""
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    first = [alias.with_changes(comma=comma) for alias in aliases[:-1]]
    return [*first, aliases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
