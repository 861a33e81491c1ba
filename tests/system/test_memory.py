"""Free memory reported by the system, and messages for runs that need more."""

import errno
import pathlib
import re
import weakref

import pytest
import tensorflow as tf

import deeplab
from deeplab import eval as eval_program
from deeplab import export_model, train, vis
from deeplab.errors import DataError, OutOfMemoryError
from deeplab.options import EvalOptions, ExportOptions, VisOptions
from deeplab.system import memory, system_files
from tests.helpers import evaluation_setup, training_setup

GIB = 1 << 30
SIZE = memory.Size('train', 8, (513, 513), 16)


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Writes files of /proc and of control groups."""
    monkeypatch.setattr(system_files, 'PROC', tmp_path / 'proc')
    monkeypatch.setattr(system_files, 'CGROUPS', tmp_path / 'cgroup')

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    return write


def test_nothing_is_known_without_proc(system):
    assert memory.free() is None
    memory.check(memory.Need(1 << 50, 0), SIZE)


def test_of_the_machine(system):
    system('proc/meminfo', 'MemTotal: 16 kB\nMemAvailable:     3000 kB\nSwapFree: 1000 kB\n')
    assert memory.free() == 4000 * 1024


@pytest.mark.parametrize('limited', ['a', 'a/b'])
def test_of_a_control_group_and_those_above_it(system, limited):
    system('proc/meminfo', 'MemAvailable: 3000 kB\n')
    system('proc/self/cgroup', '0::/a/b\n')
    for group in ('a', 'a/b'):
        system(f'cgroup/{group}/memory.max', '100000\n' if group == limited else 'max\n')
        system(f'cgroup/{group}/memory.current', '70000\n')
        system(f'cgroup/{group}/memory.stat', 'anon 5\ninactive_file 1000\n')
    assert memory.free() == 31000


def test_of_a_container_of_version_1_that_sees_itself_as_the_root(system):
    system('proc/meminfo', 'MemAvailable: 3000 kB\n')
    system('proc/self/cgroup', '5:cpu:/x\n4:memory:/docker/abc\n')
    system('cgroup/memory/memory.limit_in_bytes', '100000')
    system('cgroup/memory/memory.usage_in_bytes', '100500')
    assert memory.free() == 0
    system('cgroup/memory/memory.limit_in_bytes', str((1 << 63) - 4096))  # none
    assert memory.free() == 3000 * 1024


@pytest.fixture
def free(monkeypatch):
    def let(available):
        monkeypatch.setattr(memory, 'free', lambda: available)

    return let


def test_enough_says_nothing(free, caplog):
    free(16 * GIB)
    memory.check(memory.Need(8 * GIB, GIB // 10), SIZE)
    assert not caplog.records


def test_near_it_warns(free, caplog):
    free(8 * GIB)
    memory.check(memory.Need(7 * GIB, GIB // 5), SIZE)
    assert '8.9 GiB' in caplog.text
    assert '8.0 GiB are free' in caplog.text


def test_beyond_it_names_what_fits(free):
    free(4 * GIB)
    need = memory.Need(8 * GIB, GIB // 10)
    with pytest.raises(OutOfMemoryError, match=r'batch_size=2, or crop_size=\(305, 305\)') as refused:
        memory.check(need, SIZE)
    assert 'accumulation_steps' in str(refused.value)
    for factor in (2 / 8, (305 / 513) ** 2):  # what it names does fit
        memory.check(memory.Need(int(need.activations * factor), need.held), SIZE)
        assert memory.Need(int(need.activations * factor), need.held).likely <= 4 * GIB
    in_fours = SIZE._replace(parts=4)
    with pytest.raises(OutOfMemoryError, match=r'The largest that fit: crop_size=\(305, 305\)'):
        memory.check(need, in_fours)


def test_weights_alone_are_too_much(free):
    free(GIB)
    with pytest.raises(OutOfMemoryError, match='No batch and no crop size would fit'):
        memory.check(memory.Need(GIB, GIB), SIZE)


def test_a_validation_needs_its_memory_beside_that_of_the_training(free, caplog):
    validation, training = memory.Need(GIB, GIB // 2), memory.Need(4 * GIB, GIB, GIB // 4)
    assert validation.beside(training) == memory.Need(4 * GIB, 3 * GIB // 2, GIB // 4)
    free(2 * GIB)  # enough for the validation alone; what the training keeps makes it 2.75 GiB
    with pytest.raises(OutOfMemoryError, match=r'^Validations need, together with the training, about 9\.9 GiB of mem'):
        memory.check_validation(validation, training, 'Validations')
    free(3 * GIB)  # the training gives back its activations
    memory.check_validation(validation, training, 'Validations')
    assert 'about 9.9 GiB' in caplog.text
    caplog.clear()
    free(11 * GIB)
    memory.check_validation(validation, training, 'Validations')
    assert not caplog.records


@pytest.mark.parametrize(
    'error',
    [
        tf.errors.ResourceExhaustedError(None, None, 'OOM when allocating tensor with shape[8,1] and type float'),
        tf.errors.InternalError(None, None, 'std::bad_alloc'),
        MemoryError(),
        OSError(errno.ENOMEM, 'Cannot allocate memory'),
    ],
)
def test_a_failed_allocation_becomes_one_line(free, error):
    free(4 * GIB)
    with pytest.raises(OutOfMemoryError) as told, memory.explained('train', size=SIZE):
        raise error
    assert '\n' not in str(told.value)
    assert 'batch_size=4' in str(told.value)


@pytest.mark.parametrize('program', [*memory.PROGRAMS, memory.VALIDATION])
def test_every_program_has_advice(program):
    assert len(memory.advice(program)) > 20


def test_a_cross_validation_is_watched_and_advised_as_a_training():
    assert 'cross_validate' in memory.PROGRAMS
    assert memory.advice('cross_validate') == memory.advice('train')


def test_every_program_that_explains_a_shortage_has_advice():
    code = [path.read_text() for path in pathlib.Path(deeplab.__file__).parent.rglob('*.py')]
    explained = {name for text in code for name in re.findall(r"memory\.explained\('(\w+)'", text)}
    assert {'rank', 'train'} <= explained <= set(memory.PROGRAMS)


@pytest.mark.parametrize(
    'error',
    [
        tf.errors.ResourceExhaustedError(None, None, '/full/model.ckpt; No space left on device'),
        DataError('out of memory'),
        ValueError('else'),
    ],
)
def test_other_errors_stay(error):
    with pytest.raises(type(error)) as told, memory.explained('eval'):
        raise error
    assert told.value is error


def test_what_the_run_held_is_freed_before_the_report():
    class Graph:
        pass

    held = []

    def build():
        graph = Graph()
        held.append(weakref.ref(graph))
        raise MemoryError

    with pytest.raises(OutOfMemoryError) as told, memory.explained('train'):
        build()
    assert told.value.__cause__ is not None and held[0]() is None


def test_export_is_covered(monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(export_model.destinations, 'check_target', fail)
    with pytest.raises(OutOfMemoryError, match='crop_size'):
        export_model.run(ExportOptions(evaluation_setup.MODEL, 'checkpoint', 'path'))


def test_a_training_that_cannot_fit_is_refused_before_its_first_step(free, tmp_path, tiny_network):
    free(2000)
    options = training_setup.options(training_setup.write_data(tmp_path / 'records'), tmp_path / 'log')
    with pytest.raises(OutOfMemoryError, match=r'batch_size=2 with crop_size=\(17, 33\) needs'):
        train.run(options)
    assert not list((tmp_path / 'log').glob('model.ckpt*'))


@pytest.mark.parametrize('program', ['eval', 'vis'])
def test_eval_and_vis_that_cannot_fit_are_refused(free, tmp_path, monkeypatch, program):
    evaluation_setup.use_small_network(monkeypatch)
    free(2000)
    data = evaluation_setup.write_data(tmp_path / 'records')
    kind, run = (EvalOptions, eval_program.run) if program == 'eval' else (VisOptions, vis.run)
    with pytest.raises(OutOfMemoryError, match=r'batch_size=1 with crop_size=\(17, 17\) needs'):
        run(kind(evaluation_setup.MODEL, data, str(tmp_path), str(tmp_path / 'out')))
