"""The recipes of TF-Slim's shell scripts, with the words of these scripts, for two steps on tiny records.

Covers slim/eval_image_classifier.py.
"""

import json
import re

import numpy as np
import pytest

from deeplab import cli
from tests.helpers import class_records, task_records
from tests.helpers.checkpoint_files import values_of

STEPS = '--max_number_of_steps=2'


def run(capsys, program, *words):
    status = cli.main([program, *map(str, words)])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return printed.out


def evaluated(text):
    return [float(re.search(rf'^eval/{name}\[([\d.]+)\]$', text, re.M)[1]) for name in ('Accuracy', 'Recall_5')]


def test_cifarnet_on_cifar10(tmp_path, capsys):
    data = class_records.write(tmp_path / 'cifar10', {'train': 20, 'test': 10})
    shared = ['--dataset_name=cifar10', f'--dataset_dir={data}', '--model_name=cifarnet']
    run(
        capsys, 'train_image_classifier', f'--train_dir={tmp_path}/logs', *shared, '--dataset_split_name=train',
        '--preprocessing_name=cifarnet', STEPS, '--batch_size=8', '--save_interval_secs=120',
        '--save_summaries_secs=120', '--log_every_n_steps=100', '--optimizer=sgd', '--learning_rate=0.1',
        '--learning_rate_decay_factor=0.1', '--num_epochs_per_decay=200', '--weight_decay=0.004',
    )  # fmt: skip
    command = ['eval_image_classifier', f'--checkpoint_path={tmp_path}/logs', f'--eval_dir={tmp_path}/logs', *shared]
    accuracy, recall = evaluated(run(capsys, *command, '--dataset_split_name=test'))
    assert 0 <= accuracy <= recall <= 1
    figures = json.loads((tmp_path / 'logs' / 'metrics-2-test.json').read_text())
    assert figures['metrics']['classification']['accuracy'] == pytest.approx(accuracy, rel=1e-5)
    # Of the first four images alone.
    accuracy, _ = evaluated(run(capsys, *command, '--batch_size=2', '--max_num_batches=2'))
    assert accuracy * 4 == round(accuracy * 4)


def test_lenet_on_mnist(tmp_path, capsys):
    data = class_records.write(tmp_path / 'mnist', {'train': 20, 'test': 10}, size=28, channels=1)
    shared = ['--dataset_name=mnist', f'--dataset_dir={data}', '--model_name=lenet']
    run(
        capsys, 'train_image_classifier', f'--train_dir={tmp_path}/logs', *shared, '--preprocessing_name=lenet', STEPS,
        '--batch_size=10', '--optimizer=sgd', '--learning_rate=0.01', '--learning_rate_decay_type=fixed',
        '--weight_decay=0',
    )  # fmt: skip
    assert values_of(tmp_path / 'logs' / 'model.ckpt-2')['LeNet/conv1/weights'].shape == (5, 5, 1, 32)
    words = [f'--checkpoint_path={tmp_path}/logs/model.ckpt-2', f'--eval_dir={tmp_path}/eval', *shared]
    assert evaluated(run(capsys, 'eval_image_classifier', *words))[1] <= 1


def fine_tuned(tmp_path, capsys, model, scope, size):
    """Runs two stages on flowers, the logits and then all, after a training on other classes; returns checkpoints."""
    other = class_records.write(tmp_path / 'cifar10', {'train': 4})
    sized = [f'--model_name={model}', f'--train_image_size={size}', STEPS, '--batch_size=2']
    words = ['--dataset_name=cifar10', f'--dataset_dir={other}', *sized, f'--train_dir={tmp_path}/first']
    run(capsys, 'train_image_classifier', *words)
    data = class_records.write(
        tmp_path / 'flowers', {'train': 4, 'validation': 4}, classes=5, names='{}_{}_00000-of-00001.tfrecord'
    )
    shared = [
        '--dataset_name=flowers',
        f'--dataset_dir={data}',
        *sized,
        '--optimizer=rmsprop',
        '--weight_decay=0.00004',
    ]
    logits = tmp_path / 'logits'
    run(
        capsys, 'train_image_classifier', *shared, f'--train_dir={logits}', f'--checkpoint_path={tmp_path}/first',
        f'--checkpoint_exclude_scopes={scope}', f'--trainable_scopes={scope}', '--learning_rate=0.01',
        '--learning_rate_decay_type=fixed',
    )  # fmt: skip
    run(
        capsys, 'train_image_classifier', *shared, f'--train_dir={logits}/all', f'--checkpoint_path={logits}',
        '--learning_rate=0.001', '--learning_rate_decay_type=fixed',
    )  # fmt: skip
    text = run(
        capsys, 'eval_image_classifier', *shared[:2], f'--model_name={model}', f'--checkpoint_path={logits}/all',
        f'--eval_dir={logits}/all', '--dataset_split_name=validation',
    )  # fmt: skip
    assert evaluated(text)[1] == 1
    return [values_of(path / 'model.ckpt-2') for path in (tmp_path / 'first', logits, logits / 'all')]


def check_stages(first, second, third, scope):
    names = [name for name in first if name.endswith('/weights')]
    for name in names:
        is_last = name.startswith(scope)
        assert (first[name].shape == second[name].shape) != is_last
        if not is_last:
            np.testing.assert_array_equal(first[name], second[name])
        assert not np.array_equal(second[name], third[name])


def test_fine_tuning_in_two_stages(tmp_path, capsys):
    scope = 'CifarNet/logits'
    check_stages(*fine_tuned(tmp_path, capsys, 'cifarnet', scope, 32), scope)


@pytest.mark.long
def test_fine_tuning_resnet_in_two_stages(tmp_path, capsys):
    scope = 'resnet_v1_50/logits'
    check_stages(*fine_tuned(tmp_path, capsys, 'resnet_v1_50', scope, 64), scope)


@pytest.mark.slow
def test_segmentation_from_a_classifier_and_the_other_way_round(tmp_path, capsys):
    data = task_records.write_data(tmp_path)
    shared = [f'--dataset_dir={data.directory}', '--model_name=mobilenet_v2_025', '--train_image_size=32', STEPS]
    shared += ['--batch_size=2', '--quantize_delay=0']
    run(capsys, 'train_image_classifier', *shared, f'--train_dir={tmp_path}/first')
    classifier = values_of(tmp_path / 'first' / 'model.ckpt-2')
    assert 'MobilenetV2/Logits/Conv2d_1c_1x1/act_quant/max' in classifier  # 8 bits include the last layer
    network = ['--depth_multiplier=.25', '--divisible_by=8', '--train_crop_size=33,33', f'--dataset={data.name}']
    run(
        capsys, 'train', f'--dataset_dir={data.directory}', *network, f'--train_logdir={tmp_path}/maps',
        f'--tf_initial_checkpoint={tmp_path}/first/model.ckpt-2', '--training_number_of_steps=1',
        '--train_batch_size=2', '--base_learning_rate=0',
    )  # fmt: skip
    maps = values_of(tmp_path / 'maps' / 'model.ckpt-1')
    for name in maps:
        if name.startswith('MobilenetV2/') and name.endswith('/weights'):
            np.testing.assert_array_equal(maps[name], classifier[name])
    again = ['train_image_classifier', *shared[:-1], f'--train_dir={tmp_path}/second']
    assert cli.main([*again, f'--checkpoint_path={tmp_path}/maps']) == 1
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert 'is of a segmentation network: it lacks MobilenetV2/Logits/Conv2d_1c_1x1/weights. Set ' in message
    assert '--checkpoint_exclude_scopes=MobilenetV2/Logits/Conv2d_1c_1x1' in message


def test_a_checkpoint_of_another_number_of_classes(tmp_path, capsys):
    """Both programs name --labels_offset."""
    data = class_records.write(tmp_path / 'cifar10', {'train': 4, 'test': 4}, classes=4, first=1)
    shared = [f'--dataset_dir={data}', '--dataset_name=cifar10', '--model_name=cifarnet']
    train = ['train_image_classifier', *shared, STEPS, '--batch_size=2']
    run(capsys, *train, '--labels_offset=1', f'--train_dir={tmp_path}/first')
    assert values_of(tmp_path / 'first' / 'model.ckpt-2')['CifarNet/logits/biases'].shape == (9,)
    words = [f'--checkpoint_path={tmp_path}/first', f'--eval_dir={tmp_path}/eval']
    run(capsys, 'eval_image_classifier', *shared, *words)  # the offset is in run.json
    assert cli.main(['eval_image_classifier', *shared, *words, '--labels_offset=0']) == 1
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert 'has 9 classes, the network here 10. ' in message and '--labels_offset' in message
    assert cli.main([*train, f'--train_dir={tmp_path}/second', f'--checkpoint_path={tmp_path}/first']) == 1
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert 'has 9 classes, the network here 10. ' in message and '--labels_offset' in message
    assert cli.main([*train, '--labels_offset=2', f'--train_dir={tmp_path}/third']) == 1
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert "'image/class/label' is 1; class ids are 2 to 9" in message and 'omit --labels_offset=2.' in message


def test_gray_images(tmp_path, capsys):
    data = class_records.write(tmp_path / 'cifar10', {'train': 4, 'test': 4})
    shared = [f'--dataset_dir={data}', '--dataset_name=cifar10', '--model_name=cifarnet', '--use_grayscale']
    run(capsys, 'train_image_classifier', *shared, STEPS, '--batch_size=2', f'--train_dir={tmp_path}/logs')
    assert values_of(tmp_path / 'logs' / 'model.ckpt-2')['CifarNet/conv1/weights'].shape == (5, 5, 1, 64)
    words = [f'--checkpoint_path={tmp_path}/logs', f'--eval_dir={tmp_path}/eval']
    run(capsys, 'eval_image_classifier', *shared[:-1], *words)  # run.json says it
