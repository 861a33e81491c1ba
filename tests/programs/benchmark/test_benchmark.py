"""deeplab benchmark. Covers system/children.py, programs/benchmark/figures.py, programs/benchmark/inference.py,
programs/benchmark/parts.py, programs/benchmark/training.py, options/benchmark.py.

Each measurement is tested in this process with a toy network; the program with stand-ins for the measurements.
"""

import dataclasses
import errno
import json
import pathlib
import sys
import time

import pytest

from deeplab import cli, common, wording
from deeplab.datasets import descriptor
from deeplab.errors import OptionError, OutputError
from deeplab.files import writing
from deeplab.options import DatasetOptions, EngineOptions, ModelOptions
from deeplab.programs.benchmark import benchmark, figures, inference, parts, training
from deeplab.registry import BACKBONES, register
from deeplab.system import children, processors
from tests.helpers.registries import changes_undone
from tests.helpers.toy_network import TOY

ROOT = pathlib.Path(__file__).parents[3]
PLUGIN = 'from deeplab.registry import register\nfrom tests.helpers.toy_network import TOY\nregister(TOY)\n'


@pytest.fixture
def options(tmp_path):
    words = ['--train_crop_size=33,33', '--train_batch_size=4', f'--output={tmp_path}', '--threads=1,3']
    return cli.options_of('benchmark', words)


def _call(function, *arguments, plugin_names=(), environment=None):
    """Stands in for a measurement in another process."""
    name = function.partition(':')[0].rpartition('.')[2]
    if name == 'parts':
        return figures.Parts(reading=300.0, writing=20.0)
    threads = arguments[2].threads
    assert environment == processors.thread_limit(threads)
    seconds = 0.1 / threads
    rows = [figures.Inference(threads, size, 1.0, 0.5, size * seconds, 10**9) for size in (1, 4)]
    return 2.5, rows


@pytest.fixture
def stand_ins(monkeypatch):
    def train(flags, dataset_dir, batch_size):
        assert list(pathlib.Path(dataset_dir).glob('train-*.tfrecord'))
        if batch_size > 2:
            raise children.ChildError('--train_batch_size=4 needs about 80.0 GiB')
        return figures.Training(batch_size, 9.0, 0.5, 0.25, 2 * 10**9)

    monkeypatch.setattr(children, 'call', _call)
    monkeypatch.setattr(training, 'measure', train)


def test_the_report_says_what_is_fast_and_what_waits(options, stand_ins, tmp_path):
    result = benchmark.run(options)
    stored = json.loads((tmp_path / 'deeplab_benchmark.json').read_text())
    assert [(row['threads'], row['batch_size']) for row in stored['inference']] == [(3, 1), (3, 4), (1, 1), (1, 4)]
    assert stored['training'][1]['skipped'] == '--train_batch_size=4 needs about 80.0 GiB'
    assert (stored['network'], stored['image_size']) == ('mobilenet_v2', [33, 33])
    lines = result.report.splitlines()
    assert [line.split()[0] for line in lines if '30.0' in line] == ['3', '3', 'Images']  # of each part alone
    assert any(line.split() == ['2', '9.0', 's', '0.500', 's', '4.0', '25%', '2', 'GB'] for line in lines)
    assert any('skipped: --train_batch_size=4 needs' in line for line in lines)
    assert any(line.startswith('Inference, 33x33, ') for line in lines)
    assert 'wait for writing' in lines[-2]
    assert str(tmp_path) in lines[-1]


def test_the_usual_numbers_of_threads_follow_num_threads(options, stand_ins, monkeypatch):
    monkeypatch.setenv('TF_NUM_INTRAOP_THREADS', '5')  # --num_threads
    result = benchmark.run(dataclasses.replace(options, threads=()))
    assert [row.threads for row in result.inference] == [5, 5, 1, 1]


def test_when_the_time_is_up_only_the_first_of_each_kind_is_measured(options, stand_ins):
    clock = iter([0.0, *[1000.0] * 50])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark.time, 'time', lambda: next(clock))
        result = benchmark.run(options)
    assert [bool(row.skipped) for row in result.inference] == [False, False, True, True]
    assert [bool(row.skipped) for row in result.training] == [False, True]


def test_a_file_that_cannot_be_written_is_found_first(options):
    with pytest.raises(OptionError, match='output.*setup.py.*cannot be written'):
        benchmark.run(dataclasses.replace(options, output=str(ROOT / 'setup.py' / 'results.json')))


def test_a_full_disk_keeps_the_table(options, stand_ins, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(writing, 'write', full)
    with pytest.raises(OutputError, match='output: .* cannot be written: No space left') as caught:
        benchmark.run(options)
    assert 'wait for writing' in caught.value.report.splitlines()[-1]


@pytest.mark.parametrize(
    ('words', 'parts'),
    [
        ('a.tflite --batch_sizes=2', ('--batch_sizes=2', '--batch ')),
        ('a.tflite --image_size=9,9', ('--image_size=9,9', '--size ')),
        ('a.tflite --checkpoint_dir=log', ('--checkpoint_dir=log', 'Omit it')),
        ('a.tflite --engine=onnxruntime', ('--engine=onnxruntime', 'Omit it')),
        ('a.tflite --inference_precision=float16', ('--inference_precision=float16', 'Omit it')),
        ('--batch=2', ('--batch=2', '--batch_sizes')),
        ('--size=9,9', ('--size=9,9', '--image_size')),
    ],
)
def test_flags_of_networks_and_of_exports_are_not_mixed(words, parts):
    with pytest.raises(OptionError) as caught:
        cli.options_of('benchmark', words.split())
    assert not [part for part in parts if part not in str(caught.value)], caught.value


def test_a_network_that_predicts(tmp_path, monkeypatch):
    monkeypatch.setattr(inference, '_SECONDS', 0.0)
    with changes_undone(BACKBONES):
        register(TOY)
        model = ModelOptions({common.OUTPUT_TYPE: 3}, (33, 33), 'toy')
        now = time.time()
        engine = EngineOptions(threads=1)
        _, (one, two) = inference.measure(model, None, engine, (1, 2), now, now - 1, str(tmp_path))
    assert one.peak_bytes > 2**26 and one.engine == 'tensorflow'
    assert min(one.load_seconds, one.first_seconds, one.seconds, one.images_per_second) > 0
    assert (two.batch_size, two.skipped) == (2, 'the time is up')


@pytest.mark.parametrize('channels', [3, 4])
def test_reading_and_writing(channels, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, '_SECONDS', 0.01)
    camvid = descriptor.load('camvid')
    if channels != 3:
        camvid = dataclasses.replace(camvid, image_channels=channels, image_bits=16)
    records = benchmark.write_records(str(tmp_path), 'val', camvid, (16, 24))
    dataset = DatasetOptions('val', records, 'camvid', loaded=('camvid', camvid))
    if channels != 3:  # only that its records can be read
        monkeypatch.setattr(parts, '_writing', lambda *given: 1.0)
    found = parts.measure(dataset, (16, 24), str(tmp_path / 'written'))
    assert min(found.reading, found.writing) > 0


def test_the_speed_of_reading_is_that_of_the_images_after_the_first(tmp_path, monkeypatch):
    camvid = descriptor.load('camvid')
    dataset = DatasetOptions('val', benchmark.write_records(str(tmp_path), 'val', camvid, (16, 24)), 'camvid')
    lengths = iter([9, 1, 2, 3])  # seconds of each batch

    def timed(run, seconds):
        assert seconds == parts._SECONDS
        return [length for length in lengths if not run()]

    monkeypatch.setattr(parts, 'timed', timed)
    monkeypatch.setattr(parts, '_writing', lambda *_: 1.0)
    found = parts.measure(dataset, (16, 24), str(tmp_path / 'written'))
    assert found.reading == pytest.approx(3 / 6)


TRAINING = """
import json, sys, time
flags = dict(word.lstrip('-').split('=', 1) for word in sys.argv[1:])
assert flags['dataset_dir'] == 'records' and flags['optimizer'] == 'adam' and 'eval_split' not in flags
if flags['train_batch_size'] == '64':
    sys.exit('deeplab train: error: --train_batch_size=64 needs about 80.0 GiB of memory')
lines = [
    json.dumps({'step': 2, 'seconds_per_step': seconds, 'waiting_share': seconds}) for seconds in (9.0, 0.5, 0.7, 0.6)
]
with open(flags['train_logdir'] + '/metrics.jsonl', 'a') as file:
    print(*lines, sep='\\n', file=file)  # written at once: all are there when the first is
time.sleep(60)
"""


def test_a_training_is_stopped_when_enough_steps_are_timed(monkeypatch, tmp_path):
    monkeypatch.setattr(training, '_SECONDS', 0.2)
    started = children.started
    script = tmp_path / 'training.py'
    script.write_text(TRAINING)
    monkeypatch.setattr(children, 'started', lambda command: started([sys.executable, str(script), *command[4:]]))
    flags = ['--train_batch_size=3', '--dataset_dir=other', '--optimizer=adam', '--eval_split=val']
    found = training.measure(flags, 'records', 8)
    assert (found.batch_size, found.seconds, found.waiting_share) == (8, pytest.approx(0.6), pytest.approx(0.6))
    assert found.peak_bytes > 2**20
    with pytest.raises(children.ChildError, match='^--train_batch_size=64 needs about 80.0 GiB'):
        training.measure(flags, 'records', 64)


def test_functions_in_another_process():
    assert children.call('os.path:basename', 'folder/name') == 'name'
    with wording.flag_names({'EngineOptions.engine': 'engine'}), pytest.raises(OptionError, match='--engine=fast'):
        children.call('deeplab.options:EngineOptions', 'fast')


def test_why_a_process_failed():
    assert 'out of memory' in str(children.failure(-9, ''))
    assert 'status 1: ValueError: math' in str(children.failure(1, 'ValueError: math'))
    assert str(children.failure(1, 'a\ndeeplab train: error: no such split\nb')) == 'no such split'


@pytest.mark.slow
def test_a_real_run_with_a_plugin(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(training, '_SECONDS', 0.2)
    plugin = tmp_path / 'toy_plugin.py'
    plugin.write_text(PLUGIN)
    words = [f'--plugins={plugin}', '--model_variant=toy', '--train_crop_size=33,33', '--training_batch_sizes=2']
    sizes = ['--batch_sizes=1', '--threads=1', '--budget_secs=1', f'--output={tmp_path / "found.json"}']
    with changes_undone(BACKBONES):
        assert cli.main(['benchmark', *words, *sizes]) == 0
    found = json.loads((tmp_path / 'found.json').read_text())
    assert [row['skipped'] for row in (*found['inference'], *found['training'])] == ['', '']
    assert found['training'][0]['peak_bytes'] > 2**27
    assert 'others wait for' in capsys.readouterr().out


def test_a_training_is_measured_without_workers_and_validation(monkeypatch):
    class StartedError(Exception):
        pass

    def started(words):
        raise StartedError(words)

    monkeypatch.setattr(training.children, 'started', started)
    flags = ['--seed=1', '--best_metric=miou', '--eval_split=val', '--worker_hosts=a:1,b:1', '--restarts=3', '--task=1']
    with pytest.raises(StartedError) as caught:
        training.measure(flags, 'records', 2)
    (words,) = caught.value.args
    assert [word for word in words if word in flags] == ['--seed=1']
    assert [word for word in words if 'best' in word or 'worker' in word] == ['--worker_hosts=']
