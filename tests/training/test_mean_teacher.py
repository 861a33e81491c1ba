"""Mean teacher: ramp, pseudo labels, mixing, batch norms, and trainings that repeat, resume and split."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
from absl import logging
from PIL import Image

from deeplab import common, model, train
from deeplab.core import layers, moving_average, moving_updates, sessions
from deeplab.errors import DataError
from deeplab.options import UnlabeledOptions
from deeplab.training import mean_teacher, split_input
from tests.helpers import dataset_files, training_setup
from tests.helpers.checkpoint_files import values_of

pytestmark = pytest.mark.usefixtures('tiny_network')


@pytest.fixture
def photos(tmp_path):
    (tmp_path / 'photos').mkdir()
    for number in range(3):
        Image.fromarray(dataset_files.pixels(40, 70, number)).save(tmp_path / f'photos/{number}.png')
    return str(tmp_path / 'photos')


def of(photos, **values):
    """All pixels count, as an untrained network is confident of none."""
    values = {'confidence': 0.0, 'magnitude': 0.2, 'ramp_steps': 2} | values
    return {'unlabeled': UnlabeledOptions(photos, **values)}


def figures(logdir, name):
    lines = map(json.loads, (logdir / 'metrics.jsonl').read_text().splitlines())
    return [line[f'losses/unlabeled/{name}'] for line in lines]


def evaluated(build):
    with tf.Graph().as_default() as graph, sessions.open_session(graph) as session:
        return session.run(build())


def test_ramp():
    steps = np.arange(7)
    expected = np.exp(-5.0 * (1.0 - np.minimum(steps / 4.0, 1.0)) ** 2)
    np.testing.assert_allclose(evaluated(lambda: [mean_teacher.ramp(step, 4) for step in steps]), expected, rtol=1e-6)
    assert evaluated(lambda: mean_teacher.ramp(0, 0)) == 1.0


def test_targets_by_hand():
    logits = np.log(np.float32([[[[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]], [[0.1, 0.1, 0.8], [0.9, 0.05, 0.05]]]]))
    inside = np.array([True, True, True, False]).reshape(1, 2, 2, 1)

    def build():
        labels = mean_teacher.pseudo_labels(tf.constant(logits))
        return mean_teacher.targets(labels, tf.constant(inside), 0.6, 255)

    targets, counted = evaluated(build)
    np.testing.assert_array_equal(targets[0, ..., 0], [[0, 255], [2, 255]])
    assert counted['used_pixels'] == 2 and counted['used'] == pytest.approx(2 / 3)


def test_pseudo_labels_that_are_the_ignore_label_are_not_used():
    logits = np.log(np.float32([[[[0.9, 0.1], [0.2, 0.8]]]]))

    def build():
        return mean_teacher.targets(
            mean_teacher.pseudo_labels(tf.constant(logits)), tf.fill([1, 1, 2, 1], True), 0.6, 0
        )

    targets, counted = evaluated(build)
    assert targets[0, 0, :, 0].tolist() == [0, 1] and (counted['used_pixels'], counted['used']) == (1, 0.5)


def test_mix_takes_the_box_of_the_next_image():
    values = np.arange(3 * 2 * 2 * 2).reshape(3, 2, 2, 2)
    box = np.zeros((3, 4, 4, 1), bool)
    box[0, :, 2:] = True
    box[2, :2, :2] = True
    expected = values.copy()
    expected[0, :, 1] = values[1, :, 1]
    expected[2, 0, 0] = values[0, 0, 0]
    np.testing.assert_array_equal(evaluated(lambda: mean_teacher.mix(tf.constant(values), tf.constant(box))), expected)


def test_teacher_has_the_averages_and_the_student_moves_no_statistics():
    options = training_setup.options(None, 'log').model
    images = np.random.default_rng(0).uniform(0, 255, (2, 17, 33, 3)).astype(np.float32)

    def logits(**mode):
        return model.multi_scale_logits(tf.constant(images), options, mode=model.Mode(**mode))[common.OUTPUT_TYPE]

    with tf.Graph().as_default() as graph, sessions.open_session(graph) as session:
        plain = logits()[common.MERGED_LOGITS]
        step = tf.compat.v1.train.get_or_create_global_step()
        averages = moving_average.MovingAverages(tf.compat.v1.global_variables()[:-1], 0.5, step)
        number = len(tf.compat.v1.global_variables())
        with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=True):
            with averages.in_place_of_variables():
                teacher = logits()[common.MERGED_LOGITS]
            with moving_updates.discarded():
                logits(is_training=True, fine_tune_batch_norm=True)
            assert not moving_updates.registered()
            with layers.training_scope(()):
                logits(is_training=True, fine_tune_batch_norm=True)
            assert moving_updates.registered()
        assert len(tf.compat.v1.global_variables()) == number
        session.run(tf.compat.v1.global_variables_initializer())
        assert np.ptp(session.run(plain)) > 0 == np.ptp(session.run(teacher))  # averages are 0 at first
        session.run(averages.start)
        np.testing.assert_array_equal(*session.run([plain, teacher]))


def test_a_weight_of_almost_nothing_leaves_the_training_as_it_is(data, photos, tmp_path):
    """Order, augmentation, dropout and batch norm statistics of the images with labels do not change."""
    plain = training_setup.trained(data, tmp_path / 'plain', 3, moving_average_decay=0.5)
    more = of(photos, weight=1e-37)
    both = train.run(training_setup.options(data, tmp_path / 'both', 3, moving_average_decay=0.5, **more))
    first, second = values_of(plain.checkpoint), values_of(both.checkpoint)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=1e-5, atol=1e-7, err_msg=name)
    assert min(figures(tmp_path / 'both', 'used')) > 0 < min(figures(tmp_path / 'both', 'loss'))


def test_training_repeats_and_resumes(data, photos, tmp_path, caplog):
    logging.use_absl_handler()
    more = of(photos) | {'save_interval_secs': 0}
    options = training_setup.options(data, tmp_path / 'a', 3, **more)
    with caplog.at_level('INFO'):
        straight = train.run(options)
    assert 'moving_average_decay=0.99 is set' in caplog.text
    assert 'unlabeled/used_pixels = ' in caplog.text
    expected = values_of(straight.checkpoint)
    plain = training_setup.trained(data, tmp_path / 'plain', 3, moving_average_decay=0.5)  # of the test above
    assert (expected['tiny/conv1/weights'] != values_of(plain.checkpoint)['tiny/conv1/weights']).any()
    weights = [float(weight) for weight in figures(tmp_path / 'a', 'weight')]
    assert weights == pytest.approx([np.exp(-5.0), np.exp(-1.25), 1.0], rel=1e-5)
    for path in [*(tmp_path / 'a').glob('model.ckpt-2.*'), *(tmp_path / 'a').glob('model.ckpt-3.*')]:
        path.unlink()
    again = values_of(train.run(options).checkpoint)
    for name, value in expected.items():
        assert value.tobytes() == again[name].tobytes(), name


@pytest.mark.slow
@pytest.mark.parametrize('parts', [{'clones': training_setup.two_clones()}, {'accumulation_steps': 2}])
def test_clones_and_micro_batches_make_the_step_of_the_whole_batch(data, photos, tmp_path, monkeypatch, parts):
    """With every pixel confident, as the mean over a clone's pixels is not the mean over all otherwise."""
    note = training_setup.without_dropout(monkeypatch)
    whole = training_setup.whole_images(data)
    more = {**training_setup.FROZEN, **of(photos, confidence=0.0, augmentations='gamma', cutmix_probability=0.0)}
    one = training_setup.trained(whole, tmp_path / 'one', 2, **note, **more)
    made = train.run(training_setup.options(whole, tmp_path / 'parts', 2, **parts, **more))
    assert made.loss == pytest.approx(one.loss, rel=1e-5)
    assert figures(tmp_path / 'parts', 'used_pixels') == figures(tmp_path / 'one', 'used_pixels')
    first, second = values_of(one.checkpoint), values_of(made.checkpoint)
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_an_image_that_breaks_later_is_named(data, photos, tmp_path, monkeypatch):
    options = training_setup.options(data, tmp_path / 'log', 3, **of(photos))
    opened = split_input.open_all_data

    def damaged(*arguments):
        split = opened(*arguments)
        (tmp_path / 'photos' / '1.png').write_bytes(b'no image')
        return split

    monkeypatch.setattr('deeplab.training.split_input.open_all_data', damaged)
    with pytest.raises(DataError, match=r'1\.png'):
        train.run(options)


@pytest.mark.slow
def test_a_changed_folder_is_reported(data, photos, tmp_path, caplog):
    logging.use_absl_handler()
    options = training_setup.options(data, tmp_path / 'log', 1, **of(photos))
    train.run(options)
    Image.fromarray(dataset_files.pixels(40, 70, 9)).save(f'{photos}/9.png')
    caplog.clear()
    train.run(dataclasses.replace(options, number_of_steps=2))
    assert 'images without labels: 3 images -> 4 images' in caplog.text
