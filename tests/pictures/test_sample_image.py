import numpy as np

from deeplab.pictures.sample_image import sample_image


def test_each_class_has_one_color_but_for_noise():
    image, mask = sample_image((90, 120), channels=4, num_classes=3)
    assert image.shape == (90, 120, 4) and mask.shape == (90, 120) and image.dtype == mask.dtype == np.uint8
    assert set(np.unique(mask)) == {0, 1, 2}
    inner = image.astype(np.float32)
    assert all(inner[mask == number].std(axis=0).max() < 15 for number in range(3))


def test_it_is_the_same_in_each_run_and_another_for_another_seed():
    first, again, other = (sample_image((20, 30), seed=seed).image for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_no_pixel_is_ignored():
    assert 255 in sample_image((90, 120), num_classes=256, ignore_label=300).mask
    assert 255 not in sample_image((90, 120), num_classes=256).mask
