"""The task `panoptic`: outputs, losses by hand, decoding of perfect outputs, and its metric."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, model
from deeplab.core import cost
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.registry import BACKBONES, TASKS, Backbone, TaskContext
from deeplab.tasks import panoptic
from tests.helpers.registries import changes_undone

OPTIONS = ModelOptions({common.OUTPUT_TYPE: 3}, task='panoptic', depth_multiplier=0.5)
SETTINGS = {parameter.name: parameter.default for parameter in TASKS.get('panoptic').parameters}
CONTEXT = TaskContext(3, 255, ('road', 'car', 'person'), (1, 2), SETTINGS | {'stuff_area': 4})


def scene():
    """Class ids and instance ids of two cars side by side, a person, and road."""
    class_ids, instance_ids = np.zeros((2, 40, 48), np.int32)
    for number, (rows, columns, class_id) in enumerate(
        [((4, 16), (4, 18), 1), ((4, 16), (18, 34), 1), ((22, 38), (30, 40), 2)], start=1
    ):
        place = (slice(*rows), slice(*columns))
        class_ids[place], instance_ids[place] = class_id, number
    return class_ids, instance_ids


def sample():
    class_ids, instance_ids = (values[..., np.newaxis] for values in scene())
    return {common.LABEL: tf.constant(class_ids), common.INSTANCE: tf.constant(instance_ids)}


@pytest.fixture(scope='module')
def variables():
    """Names and shapes of the variables of the network."""
    with cost.abstract_graph() as outlined:
        images = tf.compat.v1.placeholder(tf.float32, [1, 65, 97, 3])
        maps = model.predict_maps(images, OPTIONS, (1.0, 0.5), add_flipped_images=True)
    assert {name: tuple(values.shape) for name, values in maps.items()} == {
        common.OUTPUT_TYPE: (1, 65, 97, 3), 'center': (1, 65, 97, 1), 'offset': (1, 65, 97, 2)
    }  # fmt: skip
    return outlined.shapes


@pytest.mark.parametrize('scales', [(0.5,), (0.75,), (1.0,), (1.5,), (0.5, 1.5)])
def test_offsets_are_lengths_in_the_image_at_every_scale(scales, monkeypatch):
    """Offsets of a tenth of the image's height, in the pixels of the map of each scale."""

    def logits(images, options):
        height, width = ((side - 1) // 4 + 1 for side in images.shape[1:3])
        channels = {output.name: output.channels for output in TASKS.outputs(options)}
        return {name: tf.fill([1, height, width, number], 0.1 * (height - 1)) for name, number in channels.items()}

    monkeypatch.setattr(model, '_single_scale_logits', logits)
    images = tf.zeros([1, 65, 97, 3])
    offsets = model.predict_maps(images, dataclasses.replace(OPTIONS, crop_size=(65, 97)), scales)['offset'].numpy()
    np.testing.assert_allclose(offsets, 6.4, rtol=1e-5)


def test_names_of_variables_are_fixed(variables):
    """Checkpoints are restored by these names: none may change."""
    expected = {
        'logits/semantic/weights': (1, 1, 256, 3),
        'logits/center/weights': (1, 1, 32, 1),
        'logits/offset/weights': (1, 1, 32, 2),
        'logits/center_features_depthwise/depthwise_weights': (5, 5, 128, 1),
        'logits/center_features_pointwise/weights': (1, 1, 128, 32),
        'semantic_branch/aspp0/weights': (1, 1, 160, 256),
        'semantic_branch/image_pooling/weights': (1, 1, 160, 256),
        'semantic_branch/concat_projection/weights': (1, 1, 512, 256),
        'semantic_branch/decoder/feature_projection0/weights': (1, 1, 96, 64),
        'semantic_branch/decoder/decoder_conv0_depthwise/depthwise_weights': (5, 5, 320, 1),
        'semantic_branch/decoder/feature_projection1/weights': (1, 1, 72, 32),
        'instance_branch/decoder/feature_projection0/weights': (1, 1, 96, 32),
        'instance_branch/decoder/decoder_conv1_pointwise/weights': (1, 1, 144, 128),
    }
    assert {name: variables.get(name) for name in expected} == expected
    of_last_layers = ('logits/', 'semantic_branch/', 'instance_branch/')
    assert all(name.startswith((*of_last_layers, 'MobilenetV2/')) for name in variables)


def test_a_backbone_without_low_level_features_is_refused():
    with changes_undone(BACKBONES):
        BACKBONES.add(Backbone(name='skipless', build=lambda images, options: None, scope='skipless'))
        with pytest.raises(OptionError, match='stride 8, which skipless does not have'):
            model.check_options(dataclasses.replace(OPTIONS, model_variant='skipless', depth_multiplier=1.0))


def test_an_even_kernel_is_refused():
    with pytest.raises(OptionError, match='nms_kernel=8 .*odd, such as 9'):
        TASKS.chosen(OPTIONS.changed(nms_kernel=8))


def perfect_maps():
    made = panoptic.targets(sample(), CONTEXT)
    one_hot = np.eye(3, dtype=np.float32)[scene()[0]]
    return {common.OUTPUT_TYPE: one_hot, 'center': made['center'].numpy(), 'offset': made['offset'].numpy()}


def test_perfect_outputs_decode_to_the_truth():
    result = panoptic.decode(perfect_maps(), CONTEXT)
    class_ids, instance_ids = scene()
    np.testing.assert_array_equal(result['class_ids'], class_ids)
    pairs = {tuple(pair) for pair in np.stack([instance_ids, result['instance_ids']], axis=-1).reshape(-1, 2).tolist()}
    assert len(pairs) == 4  # one number for each instance, and 0
    assert (0, 0) in pairs
    assert [each.score for each in result['instances']] == pytest.approx([1.0] * 3, abs=1e-3)


def test_metric_of_perfect_outputs_is_one_and_merges():
    class_ids, instance_ids = (values[..., np.newaxis] for values in scene())
    truth = {common.LABEL: class_ids, common.INSTANCE: instance_ids}
    result = panoptic.decode(perfect_maps(), CONTEXT)
    metric, other = panoptic.PanopticMetric(CONTEXT), panoptic.PanopticMetric(CONTEXT)
    metric.update(truth, result)
    other.update(truth, result)
    metric.merge(other)
    figures = metric.result()
    assert figures['pq'] == figures['ap'] == pytest.approx(1.0)
    assert metric.class_figures()['tp'] == (2, 4, 2)


def test_losses_are_zero_only_for_perfect_outputs():
    batch = {key: value[tf.newaxis] for key, value in panoptic.targets(sample(), CONTEXT).items()}
    maps = {key: tf.constant(value)[tf.newaxis] for key, value in perfect_maps().items()}
    maps[common.OUTPUT_TYPE] *= 100.0
    perfect = panoptic.losses(maps, batch, CONTEXT)
    assert {name: float(term.value) for name, term in perfect.items()} == {
        common.OUTPUT_TYPE: 0.0, 'center': 0.0, 'offset': 0.0
    }  # fmt: skip
    assert [term.weight for term in perfect.values()] == [1.0, 200.0, 0.01]
    wrong = {
        common.OUTPUT_TYPE: maps[common.OUTPUT_TYPE] * 0.0,
        'center': maps['center'] + 1.0,
        'offset': maps['offset'] + [1.0, 0.0],
    }
    worse = panoptic.losses(wrong, batch, CONTEXT)
    assert float(worse['center'].value) == pytest.approx(1.0)
    assert float(worse['offset'].value) == pytest.approx(0.5)  # the mean over rows and columns
    # All instances are small: the hardest fifth of the pixels are theirs, with three times the weight.
    things = scene()[0] > 0
    assert things.mean() > 0.2
    assert float(worse[common.OUTPUT_TYPE].value) == pytest.approx(3 * np.log(3))


def test_crowds_and_ignored_pixels_have_no_loss():
    class_ids, instance_ids = scene()
    instance_ids[class_ids == 2] = 0  # a crowd
    class_ids[:2] = 255
    crowd = {common.LABEL: tf.constant(class_ids[..., None]), common.INSTANCE: tf.constant(instance_ids[..., None])}
    made = panoptic.targets(crowd, CONTEXT)
    left_out = (class_ids == 255) | (class_ids == 2)
    np.testing.assert_array_equal(made['semantic_weight'].numpy()[..., 0] == 0, left_out)
    np.testing.assert_array_equal(made['center_weight'].numpy()[..., 0] == 0, left_out)
    np.testing.assert_array_equal(made['offset_weight'].numpy()[..., 0] == 1, class_ids == 1)


def test_mean_of_images_divides_by_the_losses_above_zero():
    values = tf.constant([[4.0, 2.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    assert float(panoptic.mean_of_images(values)) == pytest.approx((3.0 + 1.0) / 2)
    assert float(panoptic.mean_of_images(values, 0.25)) == pytest.approx((4.0 + 1.0) / 2)
    assert float(panoptic.mean_of_images(tf.zeros([2, 3]))) == 0.0


def test_matches_are_outlined_without_stuff():
    class_ids, instance_ids = scene()
    truth = {common.LABEL: class_ids[..., np.newaxis], common.INSTANCE: instance_ids[..., np.newaxis]}
    image = np.zeros((40, 48, 3), np.uint8)
    predicted = {'class_ids': class_ids.astype(np.uint8), 'instance_ids': np.where(instance_ids == 3, 0, instance_ids)}
    predicted['instance_ids'][36:40, 2:10], predicted['class_ids'][36:40, 2:10] = 9, 2
    made = panoptic.comparison(truth, predicted, image, CONTEXT)
    hit, wrong, missed = (tuple(color) for color in made.legend.values())
    colors = {tuple(color) for color in made.picture.reshape(-1, 3).tolist()}
    assert colors == {(0, 0, 0), hit, wrong, missed}
    assert [tuple(made.picture[place]) for place in ((4, 10), (36, 5), (22, 35))] == [hit, wrong, missed]
