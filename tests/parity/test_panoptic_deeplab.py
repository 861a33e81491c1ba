"""Targets of Panoptic-DeepLab compared with those of deeplab2 (goldens: panoptic_deeplab)."""

import numpy as np

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
