"""Targets and merge of Panoptic-DeepLab compared with the figures of deeplab2 (goldens: panoptic_deeplab)."""

import numpy as np
import tensorflow as tf

from deeplab.core import panoptic_merge
from deeplab.core.panoptic_targets import TargetRule, compute_targets
from tests.parity import goldens


def pytest_generate_tests(metafunc):
    cases = goldens.find(goldens.directory(metafunc.config), 'panoptic_deeplab')
    metafunc.parametrize('golden', cases, ids=[case.name for case in cases])


def test_targets(golden):
    facts, arrays = golden.facts, golden.arrays
    class_ids, instance_ids = np.divmod(arrays['panoptic_label'], facts['label_divisor'])
    rule = TargetRule(
        facts['thing_classes'],
        facts['ignore_label'],
        facts['sigma'],
        facts['small_instance_area'],
        facts['small_instance_weight'],
    )
    targets = compute_targets(class_ids, instance_ids, rule)
    np.testing.assert_allclose(targets.heatmap, arrays['target_center'], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(targets.offsets, arrays['target_offset'])
    np.testing.assert_array_equal(targets.semantic_weight, arrays['target_semantic_weight'])


def merge_rule(facts, arrays):
    """The rule by which deeplab2 merged.

    Where there are more peaks than `top_k`, deeplab2 keeps those above the last of the `top_k` largest values that
    `top_k` of TensorFlow gives in no order. This can be any of them; we take the smallest. The test therefore gives
    that value as the threshold, which leaves the same peaks.
    """
    rule = panoptic_merge.MergeRule(
        facts['thing_classes'],
        facts['ignore_label'],
        facts['center_threshold'],
        facts['nms_kernel'],
        facts['top_k'],
        facts['stuff_area'],
    )
    peaks = arrays['peaks'].ravel()
    if np.count_nonzero(peaks) <= rule.top_k:
        return rule
    values, _ = tf.math.top_k(peaks, rule.top_k, sorted=False)
    return rule._replace(center_threshold=np.float32(values[-1]))


def pixels_by_segment(*ids):
    """The pixels of each segment, whatever its number: a set of sets."""
    _, numbers = np.unique(np.stack(ids, axis=-1).reshape(-1, len(ids)), axis=0, return_inverse=True)
    return {frozenset(np.flatnonzero(numbers == number).tolist()) for number in range(numbers.max() + 1)}


def test_merge(golden):
    facts, arrays = golden.facts, golden.arrays
    heatmap, offsets = arrays['center_heatmap'][..., 0], arrays['center_offsets']
    rule = merge_rule(facts, arrays)
    peaks = panoptic_merge.heatmap_peaks(heatmap, facts['center_threshold'], facts['nms_kernel'])
    np.testing.assert_array_equal(peaks, arrays['peaks'])

    class_ids = arrays['semantic_logits'].argmax(axis=-1)
    centers, values = panoptic_merge.find_centers(heatmap, rule)
    numbers = panoptic_merge.group_pixels(offsets, np.isin(class_ids, rule.things), centers)
    assert pixels_by_segment(numbers) == pixels_by_segment(arrays['instances'])
    np.testing.assert_array_equal(np.append(0, values)[numbers], arrays['scores'])

    ones = np.ones((*class_ids.shape, facts['num_classes']), np.float32)
    result = panoptic_merge.merge(class_ids, heatmap, offsets, rule, ones)
    expected, expected_instances = np.divmod(arrays['panoptic'], facts['label_divisor'])
    np.testing.assert_array_equal(result.class_ids, expected)
    assert pixels_by_segment(result.class_ids, result.instance_ids) == pixels_by_segment(expected, expected_instances)
    for instance in result.instances:  # deeplab2's score is the value of the heatmap alone, ours with probability 1
        members = (result.class_ids == instance.class_id) & (result.instance_ids == instance.instance_id)
        np.testing.assert_allclose(arrays['scores'][members], instance.score, rtol=1e-6)
        assert members.sum() == instance.pixels
