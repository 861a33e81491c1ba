import numpy as np

from deeplab.pictures import drawing, legend


def test_each_class_has_its_color_and_names_are_harmless_text():
    entries = [legend.Entry('road', (128, 64, 128), '40.0%'), legend.Entry('sky\n\x1b[31m' * 90, (70, 130, 180))]
    pixels = np.asarray(legend.drawn(entries))
    colors = [tuple(color) for color in np.unique(pixels.reshape(-1, 3), axis=0)]
    assert {(128, 64, 128), (70, 130, 180), drawing.PAPER} <= set(colors)
    assert pixels.shape[1] < 900  # a long name is shortened


def test_many_classes_take_several_columns_and_none_are_allowed():
    entries = [legend.Entry(str(number), (number, 0, 255 - number)) for number in range(151)]
    sheet = legend.drawn(entries)
    assert sheet.height < 800
    assert {(number, 0, 255 - number) for number in range(151)} <= {color for _, color in sheet.getcolors(1 << 16)}
    assert min(legend.drawn([]).size) > 0


def test_a_legend_beside_a_picture_fits_its_size():
    entries = [legend.Entry(str(number), (number, 0, 255 - number)) for number in range(20)]
    small, large = legend.beside((480, 360), entries), legend.beside((4800, 3600), entries)
    assert small.height == 360 and 480 < small.width < 960
    assert large.height == 3600 and large.width - 4800 > 2 * (small.width - 480)  # one column, but larger letters
    assert {(number, 0, 255 - number) for number in range(20)} <= {color for _, color in small.getcolors(1 << 16)}
    flat = legend.beside((300, 20), entries)
    assert flat.height < 300 and flat.width < 900
    assert legend.beside((30, 20), []).size == (30, 20)
