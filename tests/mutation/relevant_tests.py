"""Test files that belong to a module of the package."""

from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
import re


@dataclasses.dataclass(frozen=True)
class TestFile:
    """What a test file is about.

    Attributes:
      path: path in the checkout.
      docstring: docstring of the module.
      imports: names of the imported modules, and of what is imported from them.
    """

    __test__ = False

    path: str
    docstring: str
    imports: frozenset[str]


def for_module(root: pathlib.Path, file: str) -> list[str]:
    """Returns the test files of a module, those that are about it first.

    Args:
      root: folder of the checkout.
      file: path of the module in the checkout.

    Returns:
      Paths in the checkout: the test file of the module's name, test files whose docstring names the module ("Covers
      core/dropout.py") or its folder ("everything in core/."), test files that import it or what its package exports
      of it, and the tests of its package.
    """
    module = pathlib.PurePosixPath(file).relative_to('deeplab')
    own = str('tests' / module.parent / f'test_{module.stem}.py')
    names = _importable_names(root)[file]
    folder = f'{"tests" / module.parent}/'
    named = re.compile(rf'{re.escape(str(module))}|(?<![\w/]){re.escape(str(module.parent))}/(?!\w)')

    def rank(each: TestFile) -> int:
        rules = (
            each.path == own,
            bool(named.search(each.docstring)),
            bool(names & each.imports),
            each.path.startswith(folder),
        )
        return rules.index(True) if any(rules) else len(rules)

    ranked = [(rank(each), each.path) for each in test_files(root)]
    is_in_package = len(module.parts) > 1
    return [path for position, path in sorted(ranked) if position < (4 if is_in_package else 3)]


@functools.cache
def _importable_names(root: pathlib.Path) -> dict[str, frozenset[str]]:
    """Names by which each module is imported: its own, and the names of what its package imports from it."""
    modules = {}
    for path in (root / 'deeplab').rglob('*.py'):
        name = '.'.join(path.relative_to(root).with_suffix('').parts).removesuffix('.__init__')
        modules[name] = path.relative_to(root).as_posix()
    names = {file: {name} for name, file in modules.items()}
    for package, file in modules.items():
        if file.endswith('__init__.py'):
            for node in ast.parse((root / file).read_bytes()).body:
                if isinstance(node, ast.ImportFrom) and node.module in modules:
                    names[modules[node.module]] |= {f'{package}.{each.asname or each.name}' for each in node.names}
    return {file: frozenset(each) for file, each in names.items()}


@functools.cache
def test_files(root: pathlib.Path) -> tuple[TestFile, ...]:
    """Reads every test file of a checkout."""
    files = []
    for path in sorted((root / 'tests').rglob('test_*.py')):
        tree = ast.parse(path.read_bytes())
        names = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f'{node.module}.{each.name}' for each in node.names)}
        files.append(TestFile(path.relative_to(root).as_posix(), ast.get_docstring(tree) or '', frozenset(names)))
    return tuple(files)
