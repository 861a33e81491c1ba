"""benchmarks/gpu.py with a stand-in for the trainings, which writes the metrics of a training."""

import json
import pathlib
import subprocess
import types

import pytest

from benchmarks import gpu
from deeplab import cli


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """The commands of the trainings; xla ends with an error."""
    made = []

    def stand_in(words, stdout, **options):
        made.append(words)
        logdir = next(word for word in words if word.startswith('--train_logdir='))
        assert (options['env'].get('NVIDIA_TF32_OVERRIDE') == '0') is ('/losses_' in logdir)
        flags = dict(word.partition('=')[::2] for word in words)
        if '--xla' in flags:
            stdout.write('compiling\nno such device\n')
            return types.SimpleNamespace(returncode=1)
        folder = pathlib.Path(flags['--train_logdir'])
        folder.mkdir()
        lines = [{'step': n, 'loss': 2.0 - n / 100, 'seconds_per_step': 0.1} for n in range(1, 11)]
        (folder / 'metrics.jsonl').write_text('\n'.join(map(json.dumps, lines)))
        return types.SimpleNamespace(returncode=0)

    programs = types.SimpleNamespace(run=stand_in, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(gpu, 'subprocess', programs)
    monkeypatch.setattr(gpu, 'gpus_of_this_machine', lambda: ['A100'] * 8)
    monkeypatch.setattr(gpu, 'driver', lambda: '600.1')
    monkeypatch.setattr(gpu._machine, 'RESULTS', tmp_path)
    (tmp_path / 'work' / 'records').mkdir(parents=True)
    return made


def test_one_machine_and_then_four(calls, tmp_path, capsys):
    work = f'--workdir={tmp_path / "work"}'
    gpu.main([work])
    result = json.loads((tmp_path / 'gpu.json').read_text())
    assert result['gpus'] == ['A100'] * 8
    assert result['losses_from_cpu'] == result['losses_from_second_run'] == 0
    assert result['trainings']['xception_65_float16']['images_per_second'] == 80
    assert result['trainings']['xception_65_float16_xla']['end_of_log'] == ['compiling', 'no such device']
    # As many seconds for eight times the images.
    assert result['efficiency']['xception_65_float16_8_workers'] == pytest.approx(1)
    assert set(result['efficiency']) >= {
        'mobilenet_v2_float32_8_clones_sync_batch_norm',
        'mobilenet_v2_float32_8_clones',
    }
    assert ' of 28 trainings ended well: ' in capsys.readouterr().out
    done = len(calls)
    gpu.main([work])
    assert len(calls) == done  # what has run is kept
    hosts = ','.join(f'm{number}:2222' for number in range(4))
    gpu.main([work, f'--worker_hosts={hosts}'])
    efficiency = json.loads((tmp_path / 'gpu.json').read_text())['efficiency']
    assert efficiency['xception_65_float16_4x8'] == pytest.approx(1)
    ports = {word.rpartition(':')[2] for words in calls for word in words if word.startswith('--worker_hosts=')}
    assert ports == {str(2222 + number) for number in range(6)}


def test_flags_are_flags_of_train():
    networks, machines = gpu.NETWORKS, ('one:2222', 'two:2222')
    cases = [*gpu.cases_of_one_machine(networks, 8), *gpu.cases_of_machines(networks, 8, machines, 1)]
    for case in cases:
        options = cli.options_of('train', ['--train_logdir=log', '--dataset_dir=records', *case.flags])
        assert options.batch_size == case.images


def test_no_gpu_is_one_line(monkeypatch, tmp_path):
    nothing = types.SimpleNamespace(stdout='')
    monkeypatch.setattr(subprocess, 'run', lambda *words, **options: nothing)
    with pytest.raises(SystemExit, match='TensorFlow finds no GPU here .*--try_on_cpu'):
        gpu.main([f'--workdir={tmp_path}'])
