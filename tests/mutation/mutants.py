"""Mutants of the package: small changes of its source that a test should notice, derived from the syntax tree.

What a mutant may be is stated here: `_Finder` has one method for each kind of change, and the tables above it name what
is excluded because no test ought to notice it.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import difflib
import hashlib
import pathlib
import re
from collections.abc import Iterable, Sequence

# Each comparison becomes its opposite; an ordered one also moves its boundary.
OPPOSITES = {
    ast.Eq: ('==', '!='),
    ast.NotEq: ('!=', '=='),
    ast.Lt: ('<', '>='),
    ast.LtE: ('<=', '>'),
    ast.Gt: ('>', '<='),
    ast.GtE: ('>=', '<'),
    ast.Is: ('is', 'is not'),
    ast.IsNot: ('is not', 'is'),
    ast.In: ('in', 'not in'),
    ast.NotIn: ('not in', 'in'),
}
BOUNDARIES = {ast.Lt: ('<', '<='), ast.LtE: ('<=', '<'), ast.Gt: ('>', '>='), ast.GtE: ('>=', '>')}
ARITHMETIC = {
    ast.Add: ('+', '-'),
    ast.Sub: ('-', '+'),
    ast.Mult: ('*', '/'),
    ast.Div: ('/', '*'),
    ast.FloorDiv: ('//', '*'),
    ast.Mod: ('%', '*'),
    ast.Pow: ('**', '*'),
    ast.BitAnd: ('&', '|'),
    ast.BitOr: ('|', '&'),
}

# Functions whose first two arguments may be swapped, and those that accept only one order.
SYMMETRIC = {
    *(
        'add',
        'add_n',
        'allclose',
        'array_equal',
        'equal',
        'gcd',
        'intersection',
        'isclose',
        'logical_and',
        'logical_or',
    ),
    *('max', 'maximum', 'min', 'minimum', 'multiply', 'not_equal', 'union', 'zip'),
}
ORDERED = {'delattr', 'getattr', 'hasattr', 'isinstance', 'issubclass', 'map', 'setattr'}
# Log messages below a warning may go; their texts, and the texts of errors and warnings, are prose.
LOG_LEVELS = {'debug', 'info', 'log_first_n', 'vlog', 'warning', 'error', 'exception'}
SILENT_LEVELS = {'debug', 'info', 'log_first_n', 'vlog'}
# Calls that free, flush or wait earlier than necessary, tell the user how far something is, or paint a detail of a
# generated photo that no mask shows.
REMOVABLE = {
    *('close', 'collect', 'flush', 'join', 'sleep', 'unlink', 'rmtree', 'cancel', 'shutdown', 'simplefilter'),
    *('filterwarnings', 'print', 'set_verbosity', 'detail'),
}
# Keyword arguments, and keys of such, that change speed, memory, layout, an example or a check of what always holds.
WITHOUT_EFFECT = {
    *('buffer_size', 'capacity', 'check', 'chunksize', 'compress_level', 'compresslevel', 'copy', 'daemon', 'end'),
    *('exist_ok', 'flush', 'ignore_errors', 'indent', 'maxsize', 'max_workers', 'missing_ok', 'num_parallel_calls'),
    *('num_threads', 'optimize', 'parents', 'preview', 'read_value', 'stacklevel', 'strict', 'timeout', 'width'),
}
# Names of constants that are measures of time, memory or work, or the level of another library's log.
TUNING = re.compile(
    r'(?i)second|timeout|interval|patience|wait|retr|bytes|buffer|chunk|cache|ahead|queue|worker|thread|errors_only'
)
# Functions that wait, whose arguments are bounds of time, memory or work.
WAITS = re.compile(r'sleep|_?wait_\w+')
# Packages whose numbers are sizes, distances and colors of drawings, which eyes judge.
DRAWINGS = ('pictures/', 'reporting/', 'programs/demo/', 'checks/case_pictures.py', 'checks/html_report.py')


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One small change.

    Attributes:
      file: path of the changed file in the checkout.
      scope: name of the function or class that contains the change.
      kind: kind of change, such as 'comparison'.
      number: position among the changes of this kind in this scope, from 0.
      line: line of the change, from 1.
      start: offset of the replaced bytes.
      end: offset behind the replaced bytes.
      new: replacement.
    """

    file: str
    scope: str
    kind: str
    number: int
    line: int
    start: int
    end: int
    new: str

    @property
    def identity(self) -> str:
        """Name that stays the same while other functions of the file change."""
        return f'{self.file}:{self.scope}:{self.kind}:{self.number}'

    @property
    def package(self) -> str:
        """First folder below deeplab/."""
        parts = pathlib.PurePosixPath(self.file).parts
        return parts[1] if len(parts) > 2 else 'deeplab'

    def applied(self, source: bytes) -> bytes:
        """Returns the changed source of the file."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def difference(self, source: bytes) -> str:
        """Returns the change as a unified diff."""
        old, new = (each.decode().splitlines(keepends=True) for each in (source, self.applied(source)))
        return ''.join(difflib.unified_diff(old, new, self.file, self.file, n=1))


def mutants_of(root: pathlib.Path) -> list[Mutant]:
    """Returns the mutants of every module below `root`/deeplab."""
    mutants: list[Mutant] = []
    for path in sorted((root / 'deeplab').rglob('*.py')):
        if path.name != '__main__.py':  # starts a program in a process of its own
            mutants += mutants_of_source(path.read_bytes(), path.relative_to(root).as_posix())
    return mutants


def mutants_of_source(source: bytes, file: str) -> list[Mutant]:
    """Returns the mutants of one module."""
    finder = _Finder(source, file)
    finder.visit(ast.parse(source))
    return finder.mutants


def sample(mutants: Iterable[Mutant], size: int, seed: int) -> list[Mutant]:
    """Draws mutants so that each package has its share of them.

    The order within a package follows from a hash of the seed and each identity, so that a change of one function
    hardly changes what is drawn elsewhere.
    """
    packages: dict[str, list[Mutant]] = collections.defaultdict(list)
    for mutant in mutants:
        packages[mutant.package].append(mutant)
    total = sum(map(len, packages.values()))
    # Each mutant stands at its relative position in its package: the first `size` of all have every package's share.
    positions: list[tuple[float, str, Mutant]] = []
    for each in packages.values():
        each.sort(key=lambda mutant: hashlib.sha256(f'{seed}:{mutant.identity}'.encode()).digest())
        positions += [((i + 0.5) / len(each), mutant.package, mutant) for i, mutant in enumerate(each)]
    positions.sort(key=lambda position: position[:2])
    return [mutant for _, _, mutant in positions[: min(size, total)]]


class _Finder(ast.NodeVisitor):
    """Collects the mutants of one module.

    A method that does not visit the parts of its node excludes them.
    """

    def __init__(self, source: bytes, file: str):
        self.mutants: list[Mutant] = []
        self._source = source
        self._file = file
        lines = source.splitlines(keepends=True)
        self._line_starts = [0, *(sum(map(len, lines[: i + 1])) for i in range(len(lines)))]
        self._scopes: list[str] = []
        self._numbers: collections.Counter[tuple[str, str]] = collections.Counter()
        self._is_default = False
        self._has_numbers = not file.removeprefix('deeplab/').startswith(DRAWINGS)

    # What is excluded.

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Texts are prose."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assertion is a check itself."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visits the value, but not its type hint."""
        if node.value is not None and not _is_tuning([node.target]):
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Constants that tune speed, memory or waiting are excluded."""
        if not _is_tuning(node.targets):
            self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Visits arguments that have an effect on results."""
        if node.arg is None or not (node.arg in WITHOUT_EFFECT or TUNING.search(node.arg)):
            self.visit(node.value)

    def visit_Dict(self, node: ast.Dict) -> None:
        """Visits values whose keys are no such arguments."""
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                self.visit(key)
            if not (isinstance(key, ast.Constant) and key.value in WITHOUT_EFFECT):
                self.visit(value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visits defaults and body, but no decorators and type hints; texts of objects are for developers."""
        if node.name in ('__repr__', '__str__'):
            return
        self._scopes.append(node.name)
        arguments = [*node.args.posonlyargs, *node.args.args]
        pairs: list[tuple[ast.arg, ast.expr | None]] = [
            *zip(arguments[len(arguments) - len(node.args.defaults) :], node.args.defaults, strict=True)
        ]
        pairs += [*zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
        self._is_default = True
        for argument, default in pairs:
            if default is not None and not TUNING.search(argument.arg):
                self.visit(default)
        self._is_default = False
        for statement in node.body:
            self.visit(statement)
        self._scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visits the body, but no decorators."""
        self._scopes.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._scopes.pop()

    # What is changed.

    def visit_Compare(self, node: ast.Compare) -> None:
        """Opposite comparison, moved boundary."""
        operator = type(node.ops[0])
        for table, kind in ((OPPOSITES, 'comparison'), (BOUNDARIES, 'boundary')):
            if operator in table:
                self._between(kind, node.left, node.comparators[0], *table[operator])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Another arithmetic operator, but not for texts, types, memory and drawings."""
        operands = (node.left, node.right)
        is_text = any(isinstance(each, ast.JoinedStr) or _is_constant(each, (str, bytes)) for each in operands)
        is_type = isinstance(node.op, ast.BitOr) and not self._scopes
        is_list = any(isinstance(each, (ast.List, ast.Tuple)) for each in operands)
        is_memory = any(isinstance(each, ast.Attribute) and each.attr == 'nbytes' for each in operands)
        if type(node.op) in ARITHMETIC and self._has_numbers and not (is_text or is_type or is_list or is_memory):
            self._between('arithmetic', *operands, *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """`or` for `and`, and `and` for `or`."""
        words = ('and', 'or') if isinstance(node.op, ast.And) else ('or', 'and')
        self._between('and/or', node.values[0], node.values[1], *words)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """A missing `not`."""
        if isinstance(node.op, ast.Not):
            self._add('negation', node, f'({self._text(node.operand)})')
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """The other boolean, a larger number."""
        kind = 'default' if self._is_default else 'constant'
        if isinstance(node.value, bool):
            self._add(kind, node, str(not node.value))
        elif isinstance(node.value, int) and self._has_numbers:
            self._add(kind, node, str(node.value + 1))
        elif isinstance(node.value, float) and self._has_numbers:
            self._add(kind, node, repr(2 * node.value or 1.0))

    def visit_Slice(self, node: ast.Slice) -> None:
        """Bounds that are off by one."""
        for bound in (node.lower, node.upper):
            if bound is not None and not _is_number(bound):
                self._add('slice', bound, f'({self._text(bound)}) + 1')
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        """A guard that never holds; an opposite condition."""
        names = {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
        if names & {'TYPE_CHECKING', '__name__'}:
            return
        is_guard = isinstance(node.body[-1], (ast.Raise, ast.Return, ast.Continue, ast.Break)) and not node.orelse
        if is_guard:
            self._add('removed guard', node.test, 'False')
        self._negate(node.test)
        self.visit(node.test)
        body = node.body[:-1] if is_guard and isinstance(node.body[-1], ast.Raise) else node.body
        for statement in [*body, *node.orelse]:
            self.visit(statement)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """An opposite condition, unless it chooses between words."""
        if not any(_is_constant(each, str) and ' ' in ast.literal_eval(each) for each in (node.body, node.orelse)):
            self._negate(node.test)
            self.visit(node.test)
        self.visit(node.body)
        self.visit(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        """Visits the body; another condition is an endless loop."""
        for statement in node.body:
            self.visit(statement)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """An opposite condition."""
        for condition in node.ifs:
            self._negate(condition)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """A missing error; its text is prose."""
        self._add('removed raise', node, 'pass')

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """A missing update."""
        if not _is_text(node.value):
            self._add('removed update', node, 'pass')
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A missing call."""
        if isinstance(node.value, ast.Call):
            name = _called(node.value)
            if name not in REMOVABLE | SILENT_LEVELS:
                self._add('removed call', node, 'pass')
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """Swapped arguments."""
        name = _called(node)
        is_prose = name in LOG_LEVELS | {'TypeVar', 'cast', 'print'} or name.endswith(('Error', 'Warning'))
        if is_prose or WAITS.fullmatch(name):
            return
        first = node.args[:2]
        is_drawn = not self._has_numbers and any(isinstance(each, ast.Constant) for each in first)
        if len(first) == 2 and _are_alike(*first) and name not in SYMMETRIC | ORDERED and not is_drawn:
            (start, middle), (follows, end) = map(self._span, first)
            new = self._text(first[1]) + self._source[middle:follows].decode() + self._text(first[0])
            self._put('swapped arguments', first[0].lineno, start, end, new)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        if not isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Constant)):
            self._add('negation', test, f'(not ({self._text(test)}))')

    def _between(self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        gap = self._source[start:end].decode()
        self._put(kind, left.end_lineno or left.lineno, start, end, gap.replace(old, new, 1))

    def _add(self, kind: str, node: ast.expr | ast.stmt, new: str) -> None:
        self._put(kind, node.lineno, *self._span(node), new)

    def _put(self, kind: str, line: int, start: int, end: int, new: str) -> None:
        scope = '.'.join(self._scopes)
        mutant = Mutant(self._file, scope, kind, self._numbers[scope, kind], line, start, end, new)
        self._numbers[scope, kind] += 1
        self.mutants.append(mutant)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Offsets of the first byte of a node and of the byte behind it."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        return start, self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        return self._source[slice(*self._span(node))].decode()


def _is_tuning(targets: Sequence[ast.expr]) -> bool:
    return any(isinstance(each, ast.Name) and TUNING.search(each.id) is not None for each in targets)


def _is_constant(node: ast.expr, types: type | tuple[type, ...]) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, types)


def _are_alike(one: ast.expr, other: ast.expr) -> bool:
    """Whether two arguments are easily confused: different names, or different constants that are no prose."""
    if any(_is_constant(each, str) and ' ' in ast.literal_eval(each) for each in (one, other)):
        return False
    for kinds in ((ast.Name, ast.Attribute), (ast.Constant, ast.UnaryOp)):
        if isinstance(one, kinds) and isinstance(other, kinds):
            return ast.dump(one) != ast.dump(other)
    return False


def _is_number(node: ast.expr) -> bool:
    return _is_constant(node.operand if isinstance(node, ast.UnaryOp) else node, (int, float))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or _is_constant(node, str)


def _called(node: ast.Call) -> str:
    """Last part of the name of the called function."""
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ''
