"""The result sheet of the demo shows all images, captions and figures in their places."""

import numpy as np

from deeplab.programs.demo import sheet

PALETTE = ((10, 20, 30), (200, 100, 50))
LEGEND = sheet.Legend(('left', 'right'), PALETTE, (0.5, None))


def example_row() -> list[np.ndarray]:
    ids = np.repeat([[0] * 20 + [1] * 20], 30, axis=0)
    colors = np.array(PALETTE, np.uint8)
    return [np.full((30, 40, 3), 77, np.uint8), colors[ids], colors[1 - ids]]


def test_image_truth_and_prediction_stand_side_by_side():
    pixels = np.asarray(sheet.compose([example_row()] * 2, LEGEND, 'title'))
    step = sheet.PICTURE_WIDTH + sheet.GAP
    height = sheet.PICTURE_WIDTH * 30 // 40
    for row in range(2):
        middle = sheet.HEADER_HEIGHT + row * (height + sheet.GAP) + height // 2
        seen = [tuple(pixels[middle, sheet.MARGIN + column * step + 20].tolist()) for column in range(3)]
        assert seen == [(77, 77, 77), PALETTE[0], PALETTE[1]]
    swatch = pixels[sheet.HEADER_HEIGHT + sheet.ROW_OF_LEGEND // 2, 3 * step + 2 * sheet.MARGIN + 10]
    np.testing.assert_array_equal(swatch, PALETTE[0])


def test_pictures_keep_their_colors_and_the_heading_names_the_figure():
    row = example_row()
    picture = np.full((30, 40, 3), (9, 99, 199), np.uint8)
    pixels = np.asarray(sheet.compose([[row[0], picture, row[2]]], LEGEND._replace(figure='PQ'), ''))
    plain = np.asarray(sheet.compose([row], LEGEND, ''))
    differs = (pixels != plain).any(axis=2)
    left, step = sheet.MARGIN + sheet.PICTURE_WIDTH + sheet.GAP, sheet.PICTURE_WIDTH + sheet.GAP
    assert tuple(pixels[sheet.HEADER_HEIGHT + 20, left + 20].tolist()) == (9, 99, 199)
    assert differs[: sheet.HEADER_HEIGHT].any()  # the heading of the figures
    assert not differs[:, left + step :][sheet.HEADER_HEIGHT :].any()


def test_the_legend_is_never_cut_off():
    legend = sheet.Legend([f'class {i}' for i in range(30)], [(i, i, i) for i in range(30)], [0.5] * 30)
    assert sheet.compose([example_row()], legend, '').height > 30 * sheet.ROW_OF_LEGEND


def test_the_mean_leaves_out_classes_that_occur_nowhere():
    # The second class differs: its own figure ('-' or 0.500). The mean, 0.500 both times, does not.
    without, both = (
        np.asarray(sheet.compose([example_row()], LEGEND._replace(figures=figures), ''))
        for figures in ((0.5, None), (0.5, 0.5))
    )
    rows = np.flatnonzero((without != both).any(axis=(1, 2))) - sheet.HEADER_HEIGHT
    assert sheet.ROW_OF_LEGEND <= rows.min() and rows.max() < 2 * sheet.ROW_OF_LEGEND
