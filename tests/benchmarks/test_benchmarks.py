"""python -m benchmarks, with stand-ins for the programs that it measures; its scripts on tiny graphs."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import __main__ as benchmarks
from benchmarks import (
    _data,
    _machine,
    eval_against_network,
    figures,
    measuring,
    profile_operations,
    report,
    rows,
    time_frozen_graph,
)
from tests.helpers import evaluation_setup

STAND_IN = """
import sys, time
seconds = {seconds}
if any(word.startswith('--train_logdir') for word in sys.argv):
    step = 0
    while True:
        time.sleep(seconds)
        step += 1
        print(f'global step {{step}}: loss = 0.5', file=sys.stderr, flush=True)
assert '--max_number_of_evaluations=1' in sys.argv, sys.argv
time.sleep(2 * seconds)
"""


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """A stand-in for the original, and one for ours that takes a fifteenth of its time."""
    for name, seconds in (('original', 0.15), ('ours', 0.01)):
        folder = tmp_path / name / 'deeplab'
        folder.mkdir(parents=True)
        for program in ('train', 'eval'):
            (folder / f'{program}.py').write_text(STAND_IN.format(seconds=seconds))

    def our_command(*words):
        return measuring.Command((sys.executable, str(tmp_path / 'ours/deeplab' / f'{words[2]}.py'), *words[3:]))

    monkeypatch.setattr(measuring, 'our_command', our_command)
    monkeypatch.setattr(measuring, 'prepare', lambda row, setting: None)
    monkeypatch.setattr(_machine, 'load', lambda: {'average': 1.0, 'busy_cores': 1.5})
    return tmp_path / 'original'


def test_ours_and_the_original_take_turns(stand_ins, tmp_path, capsys):
    output = tmp_path / 'table.json'
    words = ['--rows=train_camvid,eval', '--turns=3', f'--workdir={tmp_path / "work"}', f'--output={output}']
    pair = [f'--original={stand_ins}', f'--original_python={sys.executable}']
    assert benchmarks.main([*words, *pair]) == 0
    stored = json.loads(output.read_text())
    assert {'commit', 'machine', 'original', 'turns'} <= stored.keys()
    assert stored['original']['tensorflow'] == tf.__version__
    steps, whole = stored['rows']['train_camvid'], stored['rows']['eval']
    assert [len(found) for found in (*steps['variants'].values(), *whole['variants'].values())] == [3] * 4
    ratio = steps['original_by_ours']['ours']
    assert ratio['value'] > 1  # fifteen, but for the load of the machine
    assert ratio['low'] <= ratio['value'] <= ratio['high']
    assert all(each['peak_bytes'] > 2**20 for each in steps['variants']['original'])
    printed = capsys.readouterr()
    assert '1.5 cores are busy' in printed.err
    assert rows.ROWS[1].title in printed.out
    assert benchmarks.main([*words[:2], f'--output={output}', f'--against={output}']) == 0  # ours alone
    assert 'now / before' in capsys.readouterr().out


def test_a_row_that_fails_is_reported_and_the_others_are_measured(stand_ins, tmp_path, capsys):
    (tmp_path / 'ours/deeplab/eval.py').write_text('raise SystemExit("no such checkpoint")')
    output = tmp_path / 'table.json'
    assert benchmarks.main(['--quick', '--rows=train_camvid,eval', f'--output={output}']) == 1
    assert list(json.loads(output.read_text())['rows']) == ['train_camvid']
    assert 'no such checkpoint' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('words', 'part'),
    [
        (['--rows=evl'], "'evl'. Known: train_mobilenet_v2"),
        (['--original=there'], 'needs --original_python'),
        (['--against=setup.py'], "'setup.py' is not a result"),
    ],
)
def test_mistakes_are_named(words, part, capsys):
    with pytest.raises(SystemExit):
        benchmarks.main(words)
    assert part in capsys.readouterr().err


def test_ratios():
    assert figures.paired([2.0, 4.0], [1.0, 1.0]) == (3.0, None, None)
    same = [1.0, 1.1, 0.9, 1.05, 0.95]
    ratio = figures.paired([3 * value for value in same], same)
    np.testing.assert_allclose(ratio, 3.0)  # pairs share their noise
    assert ratio.differs
    assert not figures.unpaired(same, same[::-1]).differs


def test_goals_count_for_the_fastest_engine():
    row = next(row for row in rows.ROWS if row.name == 'eval')
    measured = {
        name: [measuring.Figures(seconds)] for name, seconds in (('ours', 2.0), ('ours, x', 1.0), ('original', 3.5))
    }
    assert (report.fastest_of(measured), report.reached(row, measured)) == ('ours, x', True)
    del measured['ours, x']
    assert report.reached(row, measured) is False


def test_frozen_graphs_in_turns_with_what_stands_in_for_the_original(tmp_path, monkeypatch, capsys):
    """An engine has a script of its own; the graph of the original's operations runs in the other interpreter."""
    script = tmp_path / 'python'
    script.write_text('#!/bin/sh\necho "{\\"seconds\\": 0.3}"\n')
    script.chmod(0o755)

    def ours(*words):
        is_engine = '--engine=fast' in words and '--precision=bfloat16' in words
        return measuring.Command(('echo', json.dumps({'seconds': 0.1 if is_engine else 0.2})))

    monkeypatch.setattr(measuring, 'our_command', ours)
    row = next(row for row in rows.ROWS if row.name == 'graph_mobilenet_v2')
    setting = measuring.Setting(tmp_path, tmp_path, None, None, str(script), ('fast:bfloat16',), turns=2)
    measured = measuring.measure(row, setting, print)
    assert {name: found[0].seconds for name, found in measured.items()} == {
        'ours': 0.2,
        'ours, fast:bfloat16': 0.1,
        "original's operations": 0.3,
    }
    lines = report.table({'row': (row, measured)})
    assert ['1.50' in lines[1], '3.00' in lines[2], lines[-1][0]] == [True, True, '*']
    assert report.as_json(row, measured, {})['fastest'] == 'ours, fast:bfloat16'


def test_modules_are_compiled_before_programs_are_measured(tmp_path, monkeypatch):
    ours, original = tmp_path / 'ours', tmp_path / 'original'
    for folder in (ours, original):
        (folder / 'deeplab').mkdir(parents=True)
        (folder / 'deeplab/part.py').write_text('')
    (original / 'deeplab/old.py').write_text('print 1')
    monkeypatch.setattr(measuring, 'ROOT', ours)
    setting = measuring.Setting(tmp_path, tmp_path, original=original, original_python=sys.executable)
    measuring.prepare(next(row for row in rows.ROWS if row.name == 'help'), setting)
    for folder in (ours, original):
        assert pathlib.Path(importlib.util.cache_from_source(str(folder / 'deeplab/part.py'))).exists()


def test_exports_of_an_earlier_run_are_made_anew(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(measuring, 'our_command', lambda *words: asked.append(words) or measuring.Command(('true',)))
    row = next(row for row in rows.ROWS if row.name == 'graph_mobilenet_v2')
    setting = measuring.Setting(tmp_path, tmp_path, None, tmp_path, sys.executable)
    for variant in (measuring.OURS, measuring.ORIGINAL):
        graph = measuring._graph(row, setting, variant)
        graph.parent.mkdir()
        graph.write_bytes(b'of another commit')
    measuring.prepare(row, setting)  # which would fail to run the original
    assert any('export_model' in words for words in asked)


def test_every_row_has_what_it_needs(tmp_path):
    """Flags are known to their program."""
    from deeplab import cli

    setting = measuring.Setting(tmp_path, tmp_path, is_quick=True)
    for row in rows.ROWS:
        words = measuring.flags_of(row, setting, str(tmp_path))
        assert not row.program or cli.options_of(row.program, words) is not None


def test_generated_data_is_a_data_set(tmp_path):
    records = _data.build(_data.generate(tmp_path / 'data', {'train': 2}, (8, 12)), tmp_path / 'records')
    assert len(list(records.glob('train-*.tfrecord'))) == 2  # one for each image, not the usual four


def test_time_of_a_frozen_graph(tmp_path, monkeypatch, capsys):
    with tf.Graph().as_default() as graph:
        image = tf.compat.v1.placeholder(tf.uint8, [1, None, None, 3], 'ImageTensor')
        tf.identity(image[..., 0], 'SemanticPredictions')
    path = tmp_path / 'graph.pb'
    path.write_bytes(graph.as_graph_def().SerializeToString())
    monkeypatch.setattr(sys, 'argv', ['', f'--graph={path}', '--size=4,5', '--runs=3'])
    time_frozen_graph.main()
    printed = json.loads(capsys.readouterr().out)
    assert (len(printed['all']), printed['tensorflow']) == (3, tf.__version__)


def test_time_of_eval_against_its_network(tmp_path, monkeypatch):
    evaluation_setup.use_small_network(monkeypatch)
    monkeypatch.setenv('TF_ENABLE_ONEDNN_OPTS', '1')
    data = evaluation_setup.write_data(tmp_path / 'records')
    line = [f'--dataset={data.name}', f'--dataset_dir={data.directory}', f'--eval_logdir={tmp_path}', '--metrics=all']
    line += [f'--checkpoint_dir={evaluation_setup.write_checkpoint(tmp_path)}', '--bootstrap_samples=100']
    found = eval_against_network.measure(line, rounds=1)
    assert set(found) == {'eval', 'network'} and all(seconds > 0 for (seconds,) in found.values())


def test_operations_by_type():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        images = tf.compat.v1.placeholder(tf.float32, [1, 32, 32, 3])
        resized = tf.compat.v1.image.resize_bilinear(images, [64, 64])
        tracer = profile_operations.Tracer(session.run, untraced=1, traced=1)
        while not tracer.is_done:
            tracer(resized, {images: np.zeros([1, 32, 32, 3], np.float32)})
    (found,) = [operation for operation in tracer.trace.operations if operation.kind == 'resize']
    assert found.type == 'ResizeBilinear'
    assert found.output_bytes >= 64 * 64 * 3 * 4
    assert any(line.startswith('resize ') for line in profile_operations.table(tracer.trace, 'type', 5))


@pytest.mark.slow
def test_real_programs_run(tmp_path):
    output = tmp_path / 'table.json'
    words = [sys.executable, '-m', 'benchmarks', '--quick', '--rows=build_records,help,import']
    root = pathlib.Path(benchmarks.__file__).parents[1]
    done = subprocess.run([*words, f'--output={output}'], cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())['rows']
    assert set(found) == {'build_records', 'help', 'import'}
    assert found['build_records']['variants']['ours'][0]['cpu_seconds'] > 0
