"""Color maps are equal to those of the original."""

import numpy as np
import pytest

from deeplab.datasets import descriptor
from deeplab.utils import get_dataset_colormap
from tests.parity import goldens


@pytest.fixture
def colormaps(request):
    table = goldens.table(goldens.directory(request.config), 'colormaps')
    if table is None:
        pytest.skip('the goldens hold no table colormaps.json')
    return table


def test_every_colormap_of_the_original_is_there(colormaps):
    assert set(colormaps) == {'pascal', 'cityscapes', 'ade20k', 'mapillary_vistas'}


@pytest.mark.parametrize('name', ['pascal', 'cityscapes', 'ade20k', 'mapillary_vistas'])
def test_colors(colormaps, name):
    np.testing.assert_array_equal(get_dataset_colormap.create_label_colormap(name), colormaps[name])


@pytest.mark.parametrize(('dataset', 'name'), [('pascal_voc_seg', 'pascal'), ('cityscapes',) * 2, ('ade20k',) * 2])
def test_palettes_of_the_data_sets_begin_the_colormaps(colormaps, dataset, name):
    palette = descriptor.load(dataset).palette
    np.testing.assert_array_equal(palette, colormaps[name][: len(palette)])
