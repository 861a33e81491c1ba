"""Pages of the documentation: their commands parse, and their links, headings and module names exist."""

import ast
import collections
import dataclasses
import fnmatch
import pathlib
import pkgutil
import re

import pytest

from deeplab import cli, options
from deeplab.datasets import descriptor
from deeplab.datasets.annotations import labelme
from deeplab.inference import predictor
from tests.cli import test_flags

ROOT = pathlib.Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob('*.md'), *(ROOT / 'docs').rglob('*.md')])
COMMAND = re.compile(r'^(?:.*&& )?(?:deeplab |python deeplab/)([a-z]\w+)(?:\.py)?(.*)$', re.MULTILINE)
BLOCK = re.compile(r'```sh\n(.*?)```', re.DOTALL)


def _name(path):
    return str(path.relative_to(ROOT))


def _commands(path):
    """Yields (program, words) for each `deeplab` command in a page's shell blocks."""
    for block in BLOCK.findall(path.read_text(encoding='utf-8')):
        for program, words in COMMAND.findall(block.replace('\\\n', ' ')):
            yield program, words.split()


@pytest.fixture
def with_rooms(tmp_path, monkeypatch):
    """A working folder with the data set that the tutorial describes, and the published figures of another page."""
    page = (ROOT / 'docs' / 'tutorial_own_dataset.md').read_text(encoding='utf-8')
    (description,) = re.findall(r'```json\n(.*?)```', page, re.DOTALL)
    (tmp_path / 'rooms.json').write_text(description)
    page = (ROOT / 'docs' / 'published_checkpoints.md').read_text(encoding='utf-8')
    published = re.findall(r'```json\n(.*?)```', page, re.DOTALL)[0]
    for name in ('camvid.json', 'mine.json'):
        (tmp_path / name).write_text(published)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize('page', PAGES, ids=_name)
def test_commands_are_understood(page, with_rooms):
    for program, words in _commands(page):
        assert cli.options_of(program, words) is not None, words
        of_cityscapes = any(word.startswith('--dataset_dir=cityscapes/') for word in words)
        if of_cityscapes and program in ('train', 'preview', 'eval', 'vis'):  # their defaults are train and val
            assert any(re.search(r'_split=\w+_(fine|coarse)$', word) for word in words), words


def test_pages_have_commands():
    programs = {program for page in PAGES for program, _ in _commands(page)}
    assert programs >= {'demo', 'build_voc2012_data', 'train', 'eval', 'vis'}


def test_the_table_of_programs_in_the_readme_has_each_once():
    table = (ROOT / 'README.md').read_text(encoding='utf-8').partition('| program |')[2].partition('\n\n')[0]
    named = [name for row in table.splitlines() for name in re.findall(r'`deeplab (\w+)`', row.partition(' | ')[0])]
    assert sorted(named) == sorted(program.name for program in cli.PROGRAMS)


def test_the_tutorial_s_data_set(with_rooms):
    rooms = descriptor.load('rooms.json')
    assert (rooms.num_classes, rooms.ignore_label, rooms.class_name(3)) == (4, 255, 'lamp')
    page = ROOT / 'docs' / 'tutorial_own_dataset.md'
    made = {program: cli.options_of(program, words) for program, words in _commands(page)}
    assert isinstance(made['eval'], options.EvalOptions) and isinstance(made['vis'], options.VisOptions)
    assert made['vis'].model.num_classes == 4


@pytest.mark.parametrize('page', PAGES, ids=_name)
def test_links_lead_somewhere(page):
    for target in re.findall(r'\]\(([^)#]+)', page.read_text(encoding='utf-8')):
        if '://' not in target:
            assert (page.parent / target).exists(), target


def _anchors(path):
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r'```.*?```', '', path.read_text(encoding='utf-8'), flags=re.DOTALL)
    headings = re.findall(r'^#+ (.*)$', text, re.MULTILINE)
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in headings}


@pytest.mark.parametrize('page', PAGES, ids=_name)
def test_links_to_headings_find_them(page):
    for target, anchor in re.findall(r'\]\(([^)#:]*)#([^)]+)\)', page.read_text(encoding='utf-8')):
        assert anchor in _anchors(page.parent / target if target else page), f'{target}#{anchor}'


@pytest.mark.parametrize('page', PAGES, ids=_name)
def test_a_page_begins_with_a_heading_and_a_sentence(page):
    heading, empty, sentence = page.read_text(encoding='utf-8').splitlines()[:3]
    assert heading.startswith('# ') and not empty and re.match(r'[A-Z`]', sentence)


@pytest.mark.parametrize('page', PAGES, ids=_name)
def test_items_of_lists_begin_a_line(page):
    assert not re.search(r'^(?!\|).*\. - [`*A-Z]', page.read_text(encoding='utf-8'), re.MULTILINE)


def test_the_readme_links_every_page():
    more = (ROOT / 'README.md').read_text(encoding='utf-8').partition('## Documentation')[2]
    named = set(re.findall(r'\]\(([^)#]+\.md)\)', more))
    assert named == {_name(page) for page in PAGES} - {'README.md'}


@pytest.mark.parametrize('name', ['CONTRIBUTING.md', 'docs/architecture.md', 'docs/testing.md'])
def test_modules_that_pages_for_developers_name_exist(name):
    for path in re.findall(r'`([\w/.]+\.py)`', (ROOT / name).read_text(encoding='utf-8')):
        places = (ROOT / 'deeplab' / path, ROOT / path)
        assert '/' not in path or any(place.exists() for place in places), path


def test_python_names_of_a_fork_exist():
    page = (ROOT / 'docs' / 'differences.md').read_text(encoding='utf-8')
    table = page.partition('### Python names of a fork')[2].partition('\n## ')[0]
    cells = re.findall(r'^\| `.*\| (.*) \|$', table, re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r'`([a-z_]+(?:\.\w+)+)(?:\(.*?\))?`', cell)]
    assert len(names) > 8
    for name in names:
        assert pkgutil.resolve_name(f'deeplab.{name}') is not None


def test_the_page_on_the_architecture_names_every_folder():
    page = (ROOT / 'docs' / 'architecture.md').read_text(encoding='utf-8')
    for path in (ROOT / 'deeplab').rglob('*'):
        if path.is_dir() and path.name != '__pycache__':
            assert f'`{path.relative_to(ROOT / "deeplab").as_posix()}/' in page


def _definitions():
    """Returns the names that each module and class of the package defines, by the name of the module or class."""
    names = collections.defaultdict(set)
    for path in (ROOT / 'deeplab').rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names[path.stem].add(node.name)
            if isinstance(node, ast.ClassDef):
                names[node.name] |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    return names


def test_the_data_flow_names_functions_that_exist():
    page = (ROOT / 'docs' / 'architecture.md').read_text(encoding='utf-8')
    section = page.partition('\n## Data flow\n')[2].partition('\n## ')[0]
    definitions = _definitions()
    everything = set(definitions).union(*definitions.values())
    words = re.findall(r'`([\w./]+)`', section)
    assert len(words) > 40
    for word in words:
        *owners, name = word.split('.')
        if '/' in word or name == 'py':
            assert list((ROOT / 'deeplab').glob(word)) or list((ROOT / 'deeplab').rglob(word)), word
        else:
            assert name in (definitions.get(owners[-1], ()) if owners else everything), word


def test_the_page_on_prediction_has_each_keyword_with_its_default():
    page = (ROOT / 'docs' / 'predict.md').read_text(encoding='utf-8')
    table = page.partition('| keyword | default |')[2].partition('\n\n')[0]
    kinds = (options.PredictorOptions, options.WindowOptions, options.PredictionOptions, options.EngineOptions)
    fields = [field for kind in kinds for field in dataclasses.fields(kind)]
    defaults = {field.name: field.default for field in fields if not isinstance(field.default, kinds)}
    rows = re.findall(r'^\| `(\w+)` \| `(.*?)` \|', table, re.MULTILINE)
    assert {name: ast.literal_eval(default) for name, default in rows} == defaults
    for name in dict(rows):
        assert predictor._sorted_out({name: defaults[name]})


def test_the_page_on_labeling_tools_has_every_shape_of_labelme():
    page = (ROOT / 'docs' / 'annotations.md').read_text(encoding='utf-8')
    (row,) = re.findall(r'^\| labelme \| (polygon.*?) \|', page, re.MULTILINE)
    assert set(filter(None, labelme.AREAS)) <= set(re.findall(r'\w+', row))


def test_the_page_on_the_command_line_names_every_new_flag():
    page = (ROOT / 'docs' / 'cli.md').read_text(encoding='utf-8')
    named = re.findall(r'`([a-z]\w*\*?)(?:=\w+)?`', page)  # such as `loss`, `label_weights=auto`, `jitter_*`
    new = {name for names in test_flags.NEW.values() for name in names}
    assert not [name for name in sorted(new) if not any(fnmatch.fnmatch(name, pattern) for pattern in named)]
