import numpy as np

from deeplab.datasets import palettes


def test_bits_go_to_the_channels_in_turn_from_the_top():
    colors = palettes.bit_shift_palette(70)
    assert colors.dtype == np.uint8
    assert colors[[0, 1, 2, 4, 7, 8, 64]].tolist() == [
        [0, 0, 0], [128, 0, 0], [0, 128, 0], [0, 0, 128], [128, 128, 128], [64, 0, 0], [32, 0, 0],
    ]  # fmt: skip


def test_colors_differ():
    assert len(np.unique(palettes.bit_shift_palette(512), axis=0)) == 512
    assert palettes.bit_shift_palette(0).shape == (0, 3)
