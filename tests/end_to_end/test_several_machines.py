"""Distributed training: servers in this process, one thread per replica."""

import dataclasses
import threading

import numpy as np
import pytest

from deeplab import common, train
from deeplab.deployment import cluster
from deeplab.errors import MachineError, OptionError
from deeplab.options import CloneOptions
from deeplab.training import train_loop
from tests.helpers import servers, training_setup
from tests.helpers.checkpoint_files import values_of


@pytest.fixture(autouse=True)
def short_waits(tiny_network, monkeypatch):
    monkeypatch.setattr(train_loop, 'POLL_SECS', 0.05)


@pytest.mark.slow
def test_one_server_computes_what_this_process_computes(data, tmp_path):
    """One server without replicas trains, and a resume continues from its checkpoint."""
    (master,) = servers.start(workers=1, parameter_servers=0)
    here = training_setup.trained(data, tmp_path / 'here', 3, save_interval_secs=0)
    away = training_setup.options(data, tmp_path / 'there', 3, clones=CloneOptions(master=master), save_interval_secs=0)
    train.run(away)
    for path in (tmp_path / 'there').glob('model.ckpt-3.*'):
        path.unlink()
    there = train.run(away)
    assert there.step == 3
    expected, values = values_of(here.checkpoint), values_of(there.checkpoint)
    assert values.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_two_replicas_and_two_parameter_servers(data, tmp_path, caplog):
    masters = servers.start(workers=2, parameter_servers=2)
    steps = 12

    def train_one(task):
        clones = CloneOptions(
            task=task, num_replicas=2, num_ps_tasks=2, master=masters[task], startup_delay_steps=2 * task
        )
        return train.run(training_setup.options(data, tmp_path / f'log{task}', steps, clones=clones))

    ended = []
    # A daemon: it would wait for ever for a task 0 that fails.
    thread = threading.Thread(target=lambda: ended.append(train_one(1)), daemon=True)
    with caplog.at_level('INFO'):
        thread.start()
        chief = train_one(0)
        thread.join(300)
    (other,) = ended
    assert chief.status == other.status == 0
    assert chief.step >= steps
    assert other.step >= steps
    assert other.report == f'Ended at step {other.step}, as task 1 of 2.'
    assert other.checkpoint is None
    assert not (tmp_path / 'log1').exists()
    names = {path.name for path in (tmp_path / 'log0').iterdir()}
    assert {'checkpoint', 'graph.pbtxt', 'model.ckpt-0.index', f'model.ckpt-{chief.step}.index'} <= names
    assert any(name.startswith('events.out') for name in names)
    before, after = values_of(tmp_path / 'log0' / 'model.ckpt-0'), values_of(chief.checkpoint)
    assert after['global_step'] >= steps
    for name, value in after.items():
        assert np.isfinite(value).all(), name
    assert (after['tiny/conv1/weights'] != before['tiny/conv1/weights']).any()
    assert (after['tiny/conv1/BatchNorm/moving_mean'] != before['tiny/conv1/BatchNorm/moving_mean']).any()
    assert 'replicas/is_ready' not in after
    assert 'Task 1 waits for task 0, and for step 2.' in caplog.text


@pytest.mark.slow
def test_a_worker_with_another_data_set_ends_while_the_chief_trains(data, tmp_path):
    masters = servers.start(workers=2, parameter_servers=1)
    (tmp_path / 'five.json').write_text('{"num_classes": 5}')
    other_data = dataclasses.replace(data, name=str(tmp_path / 'five.json'))
    caught = []

    def options(task, own_data, classes):
        clones = CloneOptions(task=task, num_replicas=2, num_ps_tasks=1, master=masters[task])
        made = training_setup.options(own_data, tmp_path / f'log{task}', 4, clones=clones)
        model = dataclasses.replace(made.model, outputs_to_num_classes={common.OUTPUT_TYPE: classes})
        return dataclasses.replace(made, model=model)

    def train_second():
        with pytest.raises(OptionError) as error:
            train.run(options(1, other_data, 5))
        caught.append(str(error.value))

    thread = threading.Thread(target=train_second, daemon=True)
    thread.start()
    assert train.run(options(0, data, 3)).step == 4
    thread.join(300)
    (message,) = caught
    for part in ('number of classes: 3 -> 5', 'tiny.json -> ', 'five.json', 'logits/semantic/biases [3] -> [5]'):
        assert part in message


def test_a_server_that_is_not_there(data, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, 'PATIENCE_SECS', 0.1)
    with pytest.raises(MachineError, match="master='grpc://localhost:1': no connection"):
        train.run(training_setup.options(data, tmp_path / 'log', clones=CloneOptions(master='grpc://localhost:1')))
    assert not list((tmp_path / 'log').glob('*.index'))
