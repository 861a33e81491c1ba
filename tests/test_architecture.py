"""Import layers, sizes and other rules of docs/architecture.md, checked in the source."""

import ast
import functools
import pathlib
import re
import subprocess
import sys

from deeplab import cli

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / 'deeplab'
SOURCES = sorted(PACKAGE.rglob('*.py'))
CLI = PACKAGE / 'cli'
LIBRARIES = [path for path in SOURCES if not path.is_relative_to(CLI) and path.name not in ('start.py', '__main__.py')]
LONGEST_FUNCTION = 60
LONGEST_FILE = 600
MOST_PARAMETERS = 7
# A layer of a network has many properties; these are the functions that the original's users call by keyword.
MAY_HAVE_MORE_PARAMETERS = {
    ('deeplab.core.layers', None),
    ('deeplab.utils.train_utils', 'get_model_learning_rate'),
    ('deeplab.utils.train_utils', 'get_model_init_fn'),
    ('deeplab.utils.input_generator', 'get'),
    ('deeplab.datasets.example', 'encode'),
}

# The layers of docs/architecture.md; the longest matching name counts. A module imports its own layer and lower ones.
LAYERS = {
    'deeplab': 1,  # the package itself: its version
    'deeplab.common': 1,
    'deeplab.errors': 1,
    'deeplab.files': 1,
    'deeplab.names': 1,
    'deeplab.options': 1,
    'deeplab.overview': 1,
    'deeplab.plugins': 1,
    'deeplab.registry': 1,
    'deeplab.system': 1,
    'deeplab.wording': 1,
    'deeplab.core': 2,
    'deeplab.datasets': 2,
    'deeplab.input_preprocess': 3,
    'deeplab.model': 3,
    'deeplab.pictures': 3,
    'deeplab.tasks': 3,
    'deeplab.checks': 4,
    'deeplab.deployment': 4,
    'deeplab.utils': 4,
    'deeplab.zoo': 4,
    'deeplab.inference': 5,
    'deeplab.evaluation': 6,
    'deeplab.export': 7,
    'deeplab.training': 7,
    'deeplab.reporting': 8,
    'deeplab.convert_to_tflite': 9,
    'deeplab.eval': 9,
    'deeplab.export_model': 9,
    'deeplab.programs': 9,
    'deeplab.slim': 9,
    'deeplab.train': 9,
    'deeplab.vis': 9,
    'deeplab.__main__': 10,
    'deeplab.cli': 10,
    'deeplab.datasets.__main__': 10,
    'deeplab.programs.benchmark.__main__': 10,
    'deeplab.programs.demo.__main__': 10,
    'deeplab.start': 10,
}
# Files that are run by themselves.
PROGRAMS = {
    program.module for program in cli.PROGRAMS if program.module.rpartition('.')[2] not in ('benchmark', 'demo')
} | {
    'deeplab.datasets.__main__',
    'deeplab.programs.benchmark.__main__',
    'deeplab.programs.demo.__main__',
    'deeplab.slim.download_and_convert_data',
}
# Packages of one layer that do not import each other: (importer, imported).
INDEPENDENT = (
    ('deeplab.core', 'deeplab.datasets'),
    ('deeplab.datasets', 'deeplab.core'),
    ('deeplab.export', 'deeplab.training'),
    ('deeplab.training', 'deeplab.export'),
)


def _module(path):
    """The dotted name of a source file."""
    parts = path.relative_to(ROOT).with_suffix('').parts
    return '.'.join(parts[:-1] if parts[-1] == '__init__' else parts)


def _layer(module):
    """The layer of a module of this package."""
    names = [name for name in LAYERS if module == name or (module.startswith(f'{name}.') and name != 'deeplab')]
    assert names, f'{module} has no layer: give it one here and in docs/architecture.md'
    return LAYERS[max(names, key=len)]


def _is_main_guard(node):
    """Whether `node` is `if __name__ == '__main__':`."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def _imports(tree, with_guarded=False):
    """Yields all modules that a file imports; those under the main guard only on request."""
    for node in ast.iter_child_nodes(tree):
        if _is_main_guard(node) and not with_guarded:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, 'imports are absolute'
            for alias in node.names:
                name = f'{node.module}.{alias.name}'
                yield name if (ROOT / name.replace('.', '/')).with_suffix('.py').exists() else node.module
        else:
            yield from _imports(node, with_guarded)


@functools.cache
def _tree(path):
    return ast.parse(path.read_text(encoding='utf-8'))


@functools.cache
def _calls(tree):
    """The calls in a file as (dotted name, node)."""
    return [(ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _imports_of_ours(path):
    """The modules of this package that a file imports when it is imported or run."""
    return [name for name in _imports(_tree(path)) if name.partition('.')[0] == 'deeplab']


def test_no_module_gives_a_constant_two_values():
    """The second value would silently replace the first, as when two modules with equal names are merged."""
    for path in SOURCES:
        targets = [target for node in _tree(path).body if isinstance(node, ast.Assign) for target in node.targets]
        names = [ast.unparse(name) for target in targets for name in getattr(target, 'elts', [target])]
        assert len(names) == len(set(names)), path


def test_imports_go_down_the_layers():
    wrong = []
    for path in SOURCES:
        module = _module(path)
        for imported in _imports_of_ours(path):
            if _layer(imported) > _layer(module):
                wrong.append(f'{module} imports {imported}, which lies above it')
            for mine, other in INDEPENDENT:
                if module.startswith(f'{mine}.') and imported.startswith(other):
                    wrong.append(f'{module} imports {imported}; these packages are independent of each other')
    assert not wrong, '\n'.join(wrong)


def test_no_import_goes_in_a_circle():
    """Imports inside functions count as well."""
    names = {_module(path) for path in SOURCES}
    graph = {_module(path): {name for name in _imports_of_ours(path) if name in names} for path in SOURCES}
    packages = {_module(path) for path in SOURCES if path.name == '__init__.py'}
    # Importing a module runs its packages' files first, but these only collect names: no circle.
    graph = {
        module: found - {package for package in packages if module.startswith(f'{package}.')}
        for module, found in graph.items()
    }
    while leaves := [module for module, found in graph.items() if not found]:
        for leaf in leaves:
            del graph[leaf]
        for found in graph.values():
            found.difference_update(leaves)
    assert not graph, f'each of these imports another one of them: {sorted(graph)}'


def test_only_programs_reach_for_the_command_line_and_only_when_they_are_run():
    for path in LIBRARIES:
        tree = _tree(path)
        assert not {'deeplab.cli', 'deeplab.start'} & set(_imports(tree)), path
        if _module(path) in PROGRAMS:
            assert 'deeplab.start' in set(_imports(tree, with_guarded=True)), path
        else:
            assert not any(_is_main_guard(node) for node in tree.body), f'{path}: only programs are run'


def test_flags_exist_in_cli_alone():
    for path in LIBRARIES:
        tree = _tree(path)
        modules = set(_imports(tree, with_guarded=True))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert not {'absl.flags', 'absl.app', 'argparse'} & modules, path
        assert not {'flags', 'app'} & names, path
        text = path.read_text(encoding='utf-8')
        assert 'app.flags' not in text, path
        assert 'DEFINE_' not in text, path


def test_libraries_do_not_print():
    for path in LIBRARIES:
        names = {name for name, _ in _calls(_tree(path))}
        assert not {'print', 'pprint.pprint', 'sys.stdout.write'} & names, path


def _functions(path):
    return [node for node in ast.walk(_tree(path)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def test_no_file_and_no_function_is_too_long():
    long = [
        f'{path.name}: {node.name} has {node.end_lineno - node.lineno + 1} lines'
        for path in SOURCES
        for node in _functions(path)
        if node.end_lineno - node.lineno >= LONGEST_FUNCTION
    ]
    for path in SOURCES:
        lines = len(path.read_text(encoding='utf-8').splitlines())
        if lines > LONGEST_FILE:
            long.append(f'{path.name} has {lines} lines')
    assert not long, '\n'.join(long)


def test_no_function_has_too_many_parameters():
    """Functions take the options object that their parameters come from."""
    wrong = []
    for path in SOURCES:
        for node in _functions(path):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            names = [argument.arg for argument in given if argument.arg not in ('self', 'cls')]
            allowed = {(_module(path), None), (_module(path), node.name)} & MAY_HAVE_MORE_PARAMETERS
            if len(names) > MOST_PARAMETERS and not allowed:
                wrong.append(f'{_module(path)}: {node.name} has {len(names)}')
    assert not wrong, '\n'.join(wrong)


def test_every_module_has_its_tests():
    """A test file of the module's name, or one whose docstring names it: "Covers core/dropout.py"."""
    tests = list((ROOT / 'tests').rglob('test_*.py'))
    docstrings = ' '.join(filter(None, (ast.get_docstring(_tree(path)) for path in tests)))
    covered = set(re.findall(r'[\w/]+\.py', docstrings))
    names = {path.relative_to(ROOT / 'tests') for path in tests}
    missing = []
    for path in SOURCES:
        name = path.relative_to(PACKAGE)
        has_own = name.with_name(f'test_{name.name}') in names
        if name.name not in ('__init__.py', '__main__.py') and not has_own and name.as_posix() not in covered:
            missing.append(name.as_posix())
    assert not missing, (
        f'Add tests/FOLDER/test_NAME.py, or "Covers FOLDER/NAME.py" to the docstring of another test file: {missing}'
    )


def test_public_functions_and_classes_say_what_they_are_for():
    for path in SOURCES:
        tree = _tree(path)
        assert ast.get_docstring(tree), f'{path} has no docstring'
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith('_'):
                assert ast.get_docstring(node), f'{path.name}: {node.name} has no docstring'


def test_nothing_global_changes_at_import():
    """Statements outside functions only define things; they set no environment variable and switch nothing."""
    forbidden = ('os.environ', 'tf.config', 'disable_', 'enable_', 'set_verbosity', 'FlagValues', 'DEFINE_', 'seed(')
    for path in SOURCES:
        for node in _tree(path).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)) or _is_main_guard(node):
                continue
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring
            text = ast.unparse(node)
            assert not any(word in text for word in forbidden), f'{path.name}, line {node.lineno}: {text}'


def test_sessions_are_opened_in_one_place():
    openers = {
        _module(path)
        for path in SOURCES
        for name, _ in _calls(_tree(path))
        if name.rpartition('.')[2] in ('Session', 'MonitoredTrainingSession', 'MonitoredSession', 'InteractiveSession')
    }
    assert openers <= {'deeplab.core.sessions'}


def test_convolutions_are_made_in_one_place():
    kinds = ('conv2d', 'depthwise_conv2d', 'fused_batch_norm', 'separable_conv2d')
    makers = {
        _module(path)
        for path in SOURCES
        for name, _ in _calls(_tree(path))
        if name in {f'{space}.{kind}' for space in ('tf.nn', 'tf.compat.v1.nn', 'slim') for kind in kinds}
    }
    assert makers <= {'deeplab.core.convolutions', 'deeplab.core.fused_batch_norm', 'deeplab.core.layers'}


def test_architecture_page_shows_the_layers():
    page = (ROOT / 'docs' / 'architecture.md').read_text(encoding='utf-8')
    for layer in range(1, max(LAYERS.values()) + 1):
        assert f'\n| {layer} | ' in page


def test_light_modules_load_no_tensorflow():
    """They change neither the environment nor the global flags."""
    modules = ('', '.start', '.common', '.errors', '.options', '.cli', '.datasets.descriptor')
    code = (
        'import importlib, os, sys\n'
        'before = dict(os.environ)\n'
        'for name in sys.argv[1:]:\n'
        '    importlib.import_module(name)\n'
        '    loaded = {"tensorflow", "tf_slim", "PIL"} & set(sys.modules)\n'
        '    assert not loaded, (name, loaded)\n'
        '    assert dict(os.environ) == before, name\n'
        'from absl import flags\n'
        'ours = [name for name in flags.FLAGS if "deeplab" in str(flags.FLAGS.find_module_defining_flag(name))]\n'
        'assert not ours, ours\n'
    )
    words = [sys.executable, '-c', code, *(f'deeplab{name}' for name in modules)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_texts_name_the_thing_instead_of_that_of_and_those_of():
    """These pronouns make readers look back; a sentence that names the thing again is read once."""
    pages = [*ROOT.glob('*.md'), *(ROOT / 'docs').rglob('*.md')]
    places = [
        f'{path.relative_to(ROOT)}:{number}: {line.strip()}'
        for path in [*PACKAGE.rglob('*.py'), *PACKAGE.rglob('*.js'), *pages]
        for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), start=1)
        if re.search(r'\b(that|those) of\b', line, re.IGNORECASE)
    ]
    assert len(places) < 10, '\n'.join(places)


def test_only_inference_asks_whether_a_network_is_an_export():
    """Other packages take a checkpoint and an export alike: a `NetworkSource`."""
    for path in SOURCES:
        if not path.is_relative_to(PACKAGE / 'inference'):
            assert 'is_export' not in path.read_text(encoding='utf-8'), f'{path}: see inference/network_source.py'


def test_no_file_names_a_machine_s_own_folders():
    """Committed text works anywhere."""
    folders = tuple(f'/{name}/' for name in ('work', 'root'))
    for path in [*SOURCES, *(ROOT / 'tests').rglob('*.py'), *(ROOT / 'docs').rglob('*.md'), *ROOT.glob('*.md')]:
        text = path.read_text(encoding='utf-8')
        assert not any(f'{lead}{folder}' in text for folder in folders for lead in (' ', '"', "'", '`', '=', '('))


def test_no_path_is_read_as_a_pattern():
    """Functions that take a pattern get an escaped path; those of TensorFlow that search for one are avoided."""
    searching = {
        'load_checkpoint', 'load_variable', 'list_variables', 'checkpoint_exists', 'latest_checkpoint',
        'get_matching_files', 'remove_checkpoint', 'list_files', 'match_filenames_once', 'NewCheckpointReader',
    }  # fmt: skip
    for path in SOURCES:
        for name, node in _calls(_tree(path)):
            last = name.rpartition('.')[2]
            assert last not in searching or _module(path) == 'deeplab.core.checkpoint_reader', f'{path}: {name}'
            if name in ('glob.glob', 'glob.iglob'):
                assert 'escape' in ast.unparse(node), f'{path.name}, line {node.lineno}: escape the path'
            elif last in ('glob', 'rglob') and isinstance(node.args[0], ast.JoinedStr):
                inserted = [ast.unparse(part) for part in node.args[0].values if isinstance(part, ast.FormattedValue)]
                good = all('escape' in text or text.strip('{}').isupper() for text in inserted)  # or a constant
                assert good, f'{path.name}, line {node.lineno}: escape what is put in'
