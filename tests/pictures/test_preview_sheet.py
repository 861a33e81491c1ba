"""The preview sheet holds every cell, caption and class in its place."""

import numpy as np
import pytest

from deeplab.pictures import drawing, legend, preview_sheet

PALETTE = ((10, 20, 30), (200, 100, 50))


def cell(gray, ids, size=(30, 40), caption=''):
    return preview_sheet.Cell(caption, np.full((*size, 3), gray, np.uint8), np.full(size, ids, np.int32))


def content(columns=2, rows=2, samples=3, **changes):
    made = preview_sheet.Content(
        'title',
        [preview_sheet.Column(f'column {i}', 'details') for i in range(columns)],
        [[cell(50 + i, c % 2, caption='' if c else f'row {i}') for c in range(columns)] for i in range(rows)],
        [cell(90, 255, caption=f'sample {i}') for i in range(samples)],
        'samples',
        [legend.Entry('left', PALETTE[0], '1%'), legend.Entry('nothing', None, '2%')],
        'legend',
        PALETTE,
        255,
    )
    return made._replace(**changes)


def test_each_row_shows_its_cells_with_the_mask_below_the_image():
    pixels = np.asarray(preview_sheet.compose(content()))
    height = preview_sheet.CELL_WIDTH * 30 // 40
    top = preview_sheet.TITLE_HEIGHT + preview_sheet.HEADING_HEIGHT + preview_sheet.CAPTION_HEIGHT
    step = preview_sheet.CAPTION_HEIGHT + 2 * height + preview_sheet.BETWEEN_IMAGE_AND_MASK + preview_sheet.GAP
    for row in range(2):
        for column in range(2):
            left = preview_sheet.MARGIN + column * (preview_sheet.CELL_WIDTH + preview_sheet.GAP)
            np.testing.assert_array_equal(pixels[top + row * step, left], [50 + row] * 3)
            masked = np.rint(0.4 * (50 + row) + 0.6 * np.array(PALETTE[column]))
            bottom = top + row * step + 2 * height + preview_sheet.BETWEEN_IMAGE_AND_MASK - 1
            np.testing.assert_array_equal(pixels[bottom, left + preview_sheet.CELL_WIDTH - 1], masked)


def test_samples_fill_lines_of_four_or_as_many_as_there_are_columns():
    def heights(columns, samples):
        return preview_sheet.compose(content(columns=columns, samples=samples, legend=[])).height

    assert heights(2, 4) == heights(2, 1) < heights(2, 5) == heights(2, 8) < heights(2, 9)
    assert heights(9, 9) < heights(9, 10)
    widths = [preview_sheet.compose(content(columns=columns)).width for columns in (1, 2, 3, 5)]
    assert widths[0] == widths[1] == widths[2] < widths[3]


def test_the_legend_has_a_swatch_for_each_class_and_stripes_for_the_rest():
    pixels = np.asarray(preview_sheet.compose(content()))
    bottom = pixels[-preview_sheet.MARGIN - 2 * preview_sheet.LEGEND_ENTRY[1] :]
    assert (bottom == PALETTE[0]).all(axis=2).sum() > 400
    assert (bottom == drawing.stripes(1, 1)[0, 0]).all(axis=2).sum() > 100
    many = [legend.Entry(f'class {i}', (i, i, i), '') for i in range(200)]
    tall = np.asarray(preview_sheet.compose(content(legend=many)))
    assert (tall == 199).all(axis=2).sum() > 400  # the last is drawn too
    assert tall.shape[0] > pixels.shape[0] + 60 * preview_sheet.LEGEND_ENTRY[1]


@pytest.mark.parametrize('size', [(900, 30), (3, 700), (1, 1), (1200, 1600)])
def test_images_of_any_shape_fit(size):
    sheet = preview_sheet.compose(content(rows=1, samples=1, samples_title='', columns=1))
    odd = content(columns=1, rows=0, samples=0)._replace(rows=[[cell(7, 1, size, 'odd')]])
    drawn = preview_sheet.compose(odd)
    assert drawn.width <= sheet.width
    assert drawn.height < 1100
    assert (np.asarray(drawn) == 7).all(axis=2).any()


def test_further_pictures_are_below_the_mask_with_their_captions():
    green = np.zeros((15, 20, 3), np.uint8)
    green[..., 1] = 200
    plain = content(columns=1, rows=1, samples=1, legend=[])
    (row,) = plain.rows
    pixels = np.asarray(preview_sheet.compose(plain._replace(rows=[[row[0]._replace(further={'depth': green})]])))
    height = preview_sheet.CELL_WIDTH * 30 // 40
    top = preview_sheet.TITLE_HEIGHT + preview_sheet.HEADING_HEIGHT + preview_sheet.CAPTION_HEIGHT
    top += 2 * height + preview_sheet.BETWEEN_IMAGE_AND_MASK
    first = top + preview_sheet.FURTHER_CAPTION_HEIGHT
    np.testing.assert_array_equal(pixels[first, preview_sheet.MARGIN], [0, 200, 0])
    np.testing.assert_array_equal(pixels[first + height - 1, preview_sheet.MARGIN], [0, 200, 0])
    assert (pixels[top:first, preview_sheet.MARGIN :] != drawing.PAPER).any()  # the caption


def test_without_class_ids_there_is_no_mask_and_no_legend():
    plain = content(columns=1, rows=1, samples=1, legend=[])
    (row,) = plain.rows
    without = plain._replace(rows=[[row[0]._replace(ids=None)]])
    lower = preview_sheet.CELL_WIDTH * 30 // 40 + preview_sheet.BETWEEN_IMAGE_AND_MASK
    assert preview_sheet.compose(plain).height - preview_sheet.compose(without).height == lower
