"""The data type of a training whose precision is 'auto'."""

import dataclasses
import json

import pytest
import tensorflow as tf

from deeplab import train
from deeplab.errors import OptionError
from deeplab.options import CloneOptions
from deeplab.system import processors
from deeplab.training import precision
from tests.helpers import evaluation_setup, training_setup
from tests.training.test_run_manifest import begin_only, options_of, words

pytestmark = pytest.mark.usefixtures('tiny_network')

WITH_BFLOAT16, WITHOUT = frozenset({'avx512f', 'avx512_bf16'}), frozenset({'avx512f'})


@pytest.fixture
def machine(monkeypatch):
    """Sets the instruction sets of the processor and the compute capabilities of GPUs; without them at first."""

    def set_to(instructions=WITHOUT, *capabilities):
        details = [{} if each is None else {'compute_capability': each} for each in capabilities]
        monkeypatch.setattr(processors, 'instructions', lambda: instructions)
        monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: [*range(len(details))])
        monkeypatch.setattr(tf.config.experimental, 'get_device_details', lambda gpu: details[gpu])

    for name in ('ONEDNN_MAX_CPU_ISA', 'TF_ENABLE_ONEDNN_OPTS'):
        monkeypatch.delenv(name, raising=False)
    set_to()
    return set_to


def _options(tmp_path, **changes):
    return training_setup.options('records', tmp_path, precision='auto', **changes)


@pytest.mark.parametrize(
    ('instructions', 'capabilities', 'expected', 'reason'),
    [
        (WITH_BFLOAT16, [], 'bfloat16', 'AVX512_BF16'),
        (frozenset({'amx_bf16'}), [], 'bfloat16', 'AMX_BF16'),
        (WITHOUT, [], 'float32', 'neither AVX512_BF16 nor AMX'),
        (frozenset(), [], 'float32', 'neither AVX512_BF16 nor AMX'),
        (WITHOUT, [(8, 0)], 'bfloat16', 'compute capability 8.0'),
        (WITH_BFLOAT16, [(9, 0), (7, 5)], 'float32', '9.0, 7.5'),
        (WITH_BFLOAT16, [None], 'float32', 'unknown'),
    ],
)
def test_a_new_run_takes_what_the_machine_computes(
    machine, tmp_path, caplog, instructions, capabilities, expected, reason
):
    machine(instructions, *capabilities)
    with caplog.at_level('INFO'):
        options, given = precision.resolved(_options(tmp_path))
    assert options.precision == expected and reason in given
    (line,) = [line for line in caplog.messages if 'takes' in line]
    assert f"precision='auto' takes {expected}: {given}" in line


def test_gpus_that_are_not_used_do_not_count(machine, tmp_path):
    machine(WITH_BFLOAT16, (7, 0))
    options, _ = precision.resolved(_options(tmp_path, clones=CloneOptions(clone_on_cpu=True)))
    assert options.precision == 'bfloat16'


@pytest.mark.parametrize(
    ('variant', 'expected'),
    [('mobilenet_v2', 'bfloat16'), ('mobilenet_v3_small_seg', 'float32'), ('mobilenet_edgetpu', 'bfloat16')],
)
def test_a_network_that_is_slower_in_bfloat16_stays_in_float32_on_a_processor(machine, tmp_path, variant, expected):
    options = _options(tmp_path)
    options = dataclasses.replace(options, model=dataclasses.replace(options.model, model_variant=variant))
    machine(WITH_BFLOAT16)
    assert precision.resolved(options)[0].precision == expected
    machine(WITH_BFLOAT16, (8, 6))
    assert precision.resolved(options)[0].precision == 'bfloat16'


@pytest.mark.parametrize(
    ('variable', 'value', 'expected'),
    [
        ('ONEDNN_MAX_CPU_ISA', 'AVX2', 'float32'),
        ('ONEDNN_MAX_CPU_ISA', 'AVX512_CORE_VNNI', 'float32'),
        ('ONEDNN_MAX_CPU_ISA', 'avx512_core_amx', 'bfloat16'),
        ('TF_ENABLE_ONEDNN_OPTS', '0', 'float32'),
        ('TF_ENABLE_ONEDNN_OPTS', '1', 'bfloat16'),
    ],
)
def test_limits_of_the_environment_count(machine, tmp_path, monkeypatch, variable, value, expected):
    machine(WITH_BFLOAT16)
    monkeypatch.setenv(variable, value)
    options, reason = precision.resolved(_options(tmp_path))
    assert options.precision == expected
    assert expected == 'bfloat16' or f'{variable}={value}' in reason


@pytest.mark.parametrize(
    ('limit', 'instructions', 'is_refused'),
    [
        ('AVX2', WITHOUT, True),
        ('AVX2_VNNI_2', WITH_BFLOAT16, True),
        ('avx512_core', WITHOUT, False),
        ('DEFAULT', WITHOUT, False),
        ('AVX2', frozenset({'avx2'}), False),
    ],
)
def test_bfloat16_that_the_environment_excludes_is_refused(
    data, machine, tmp_path, monkeypatch, limit, instructions, is_refused
):
    machine(instructions)
    monkeypatch.setenv('ONEDNN_MAX_CPU_ISA', limit)
    options = options_of(*words(data, tmp_path), '--precision=bfloat16')
    if not is_refused:
        assert precision.resolved(options) == (options, None)
        return
    with pytest.raises(OptionError, match=f"precision='bfloat16' .*ONEDNN_MAX_CPU_ISA={limit} .*precision='float32'"):
        precision.resolved(options)
    machine(instructions, (8, 0))
    assert precision.resolved(options) == (options, None)


def test_what_needs_float32_gets_it(data, machine, tmp_path):
    machine(WITH_BFLOAT16)
    of_8_bits = options_of(*words(data, tmp_path), '--precision=auto', '--quantize_delay_step=0')
    of_machines = options_of(*words(data, tmp_path), '--precision=auto', '--worker_hosts=a:1,b:1')
    for options, part in ((of_8_bits, 'fake quantization'), (of_machines, 'several machines')):
        resolved, reason = precision.resolved(options)
        assert resolved.precision == 'float32' and part in reason
    with pytest.raises(OptionError, match='fake quantization needs float32'):
        options_of(*words(data, tmp_path), '--precision=bfloat16', '--quantize_delay_step=0')


def test_a_type_that_is_named_is_kept(machine, tmp_path):
    machine(WITH_BFLOAT16)
    options = training_setup.options('records', tmp_path)
    assert precision.resolved(options) == (options, None)


def test_a_resumed_run_keeps_its_type_on_another_machine(data, machine, tmp_path, monkeypatch):
    machine(WITH_BFLOAT16)
    begin_only(monkeypatch)
    logdir = tmp_path / 'log'
    train.run(options_of(*words(data, logdir, '--precision=auto')))
    evaluation_setup.write_checkpoint(logdir, step=2)
    machine(WITHOUT)
    train.run(options_of(*words(data, logdir, '--precision=auto', '--training_number_of_steps=3')))
    first, second = json.loads((logdir / 'run.json').read_text())['runs']
    assert first['options']['precision'] == second['options']['precision'] == 'bfloat16'
    assert first['precision_reason'] == 'the processor has AVX512_BF16'
    assert 'wrote the checkpoint' in second['precision_reason'] and 'take float32 here' in second['precision_reason']
    assert second['given']['TrainOptions.precision'] == 'auto'


def test_steps_of_an_unknown_type_are_continued_in_float32(machine, tmp_path):
    machine(WITH_BFLOAT16)
    options, reason = precision.resolved(_options(tmp_path), first_step=5)
    assert options.precision == 'float32' and 'run.json' in reason


def test_a_repeated_run_has_the_same_type(data, machine, tmp_path, monkeypatch):
    begin_only(monkeypatch)
    train.run(options_of(*words(data, tmp_path / 'log', '--precision=auto')))
    machine(WITH_BFLOAT16)
    repeated = options_of(f'--from={tmp_path}/log/run.json', f'--train_logdir={tmp_path}/again')
    assert repeated.precision == 'auto'
    train.run(repeated)
    (run,) = json.loads((tmp_path / 'again' / 'run.json').read_text())['runs']
    assert run['options']['precision'] == 'float32' and 'repeated' in run['precision_reason']
    plain = options_of(f'--from={tmp_path}/log/run.json', '--precision=float32', f'--train_logdir={tmp_path}/plain')
    train.run(plain)
    chosen_anew = options_of(f'--from={tmp_path}/plain', '--precision=auto', f'--train_logdir={tmp_path}/third')
    assert precision.resolved(chosen_anew)[0].precision == 'bfloat16'
