"""docs/extending.md: its examples run as they stand, and docs/reference.md lists what is registered."""

import contextlib
import json
import pathlib
import re

import pytest

from deeplab import cli, plugins
from deeplab.registry import REGISTRIES
from tests import reference_page
from tests.helpers import training_setup
from tests.helpers.registries import changes_undone

ROOT = pathlib.Path(__file__).parent.parent
PAGE = (ROOT / 'docs' / 'extending.md').read_text(encoding='utf-8')
EXAMPLES = dict(re.findall(r'```python\n# (\w+\.py)\n(.*?)```', PAGE, re.DOTALL))
TABLE = re.findall(r'^\| \[(\w[\w ]*)\]\(#.*?\) \| (\d+) \| `(.*?)` \|', PAGE, re.MULTILINE)
LONGEST = 30  # lines of an example


@pytest.fixture
def examples(tmp_path, monkeypatch):
    """Writes the examples to files; what they register is gone when the test ends."""
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as undone:
        for registry in REGISTRIES.values():
            undone.enter_context(changes_undone(registry))
        yield list(EXAMPLES)


def test_the_page_on_options_is_made_of_the_declarations():
    assert reference_page.OPTIONS_PAGE.read_text(encoding='utf-8') == reference_page.options_content(), (
        'docs/api_options.md differs from the options: run `python -m tests.reference_page`.'
    )


def test_the_page_of_all_records_is_current():
    assert reference_page.PAGE.read_text(encoding='utf-8') == reference_page.content(), (
        'docs/reference.md differs from the records: run `python -m tests.reference_page`.'
    )


@pytest.mark.parametrize(('kind', 'files', 'folder'), TABLE, ids=lambda value: str(value))
def test_one_file_adds_one_thing_of_each_kind(examples, kind, files, folder):
    """The table: to add X, touch N files. Here it is one outside of the package."""
    (registry,) = (registry for registry in REGISTRIES.values() if registry.kind == kind)
    section = PAGE.partition(f'\n## {kind.capitalize()}\n')[2].partition('\n## ')[0]
    (name,) = re.findall(r'```python\n# (\w+\.py)\n', section)
    before = registry.names()
    plugins.load([name])
    (added,) = set(registry.names()) - set(before)
    assert registry.get(added).summary
    assert files == '1'
    assert (ROOT / 'deeplab' / folder).is_dir()
    assert len(EXAMPLES[name].splitlines()) <= LONGEST


NETWORK = ['--model_variant=pebble', '--pebble_filters=5', '--output_stride=16', '--decoder_output_stride=4']
NETWORK += ['--decoder_filters=8', '--use_context_head', '--context_filters=8']
TRAINING = ['--train_crop_size=33,65', '--train_batch_size=2', '--training_number_of_steps=2']
TRAINING += ['--loss=softmax+0.5*poly1', '--poly1_epsilon=2', '--optimizer=lion', '--lion_beta=0.8']
TRAINING += ['--learning_policy=restarts', '--restarts_cycles=2', '--base_learning_rate=0.001', '--noise_deviation=2']
EVALUATION = ['--eval_split=train', '--eval_crop_size=33,65', '--max_number_of_evaluations=1']
EVALUATION += ['--metrics=most_errors', '--errors_least=2']


def test_one_of_each_trains_evaluates_and_exports(examples, tmp_path, capsys):
    """Evaluation and export take the flags of the network from the run manifest."""
    records = training_setup.write_data(tmp_path / 'records').directory
    plugins_flag = f'--plugins={",".join(examples)}'
    data = [plugins_flag, f'--dataset_dir={records}', '--dataset=birds']
    assert cli.main(['train', *data, '--train_logdir=log', *TRAINING, *NETWORK]) == 0
    run = json.loads((tmp_path / 'log' / 'run.json').read_text())['runs'][0]
    assert run['options']['model']['pebble_filters'] == 5
    assert run['options']['loss']['poly1_epsilon'] == 2.0
    assert cli.main(['eval', *data, '--checkpoint_dir=log', '--eval_logdir=eval', *EVALUATION]) == 0
    figures = json.loads((tmp_path / 'eval' / 'metrics-2-train.json').read_text())
    assert figures['metrics']['most_errors']['images'] <= figures['images'] == training_setup.IMAGES
    words = ['--checkpoint_path=log', '--export_path=graph.gz', '--crop_size=33,65', '--num_classes=3']
    words += ['--export_format=compressed_graph', '--gzip_level=1']
    assert cli.main(['export_model', plugins_flag, *words]) == 0
    assert (tmp_path / 'graph.gz').read_bytes()[:2] == b'\x1f\x8b'
    assert '100.00%' in capsys.readouterr().out
    words = ['log', '--json', '--num_classes=3', plugins_flag, *NETWORK]
    found = json.loads(cli.run_program('checkpoint', words).report)
    assert found['network']['model_variant'] == 'pebble'
    assert found['against']['fits']


def test_the_table_has_every_kind():
    assert [kind for kind, _, _ in TABLE] == [registry.kind for registry in REGISTRIES.values()]
