"""Images without labels: their folder and its errors, weak and strong views, order."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab import common
from deeplab.core import sessions
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import DataError
from deeplab.options import AugmentOptions, UnlabeledOptions
from deeplab.training import unlabeled_input
from tests.helpers import dataset_files, training_setup

pytestmark = pytest.mark.usefixtures('tiny_network')


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / 'photos'
    (folder / 'more').mkdir(parents=True)
    for number in range(3):
        array = dataset_files.pixels(20 + number, 40 - number, number)
        Image.fromarray(array).save(folder / ('more' if number else '') / f'{number}.png')
    (folder / 'notes.txt').write_text('no image')
    return folder


def made(tmp_path, photos, augment=None, **values):
    data = training_setup.write_data(tmp_path / 'records')
    unlabeled = UnlabeledOptions(str(photos), **{'magnitude': 0.2} | values)
    return training_setup.options(
        data, tmp_path / 'log', unlabeled=unlabeled, augment=augment or AugmentOptions(1.0, 1.0, 0.0)
    )


def descriptor(options):
    return DataSource(options.dataset).descriptor


def batches(options, count, first_position=0):
    split = unlabeled_input.open_split(options, descriptor(options))
    with tf.Graph().as_default():
        pipeline = unlabeled_input.build_input(options, split, first_position)
        with sessions.open_session(tf.compat.v1.get_default_graph()) as session:
            session.run(pipeline.initializer)
            return [session.run(pipeline.samples) for _ in range(count)]


def test_views_show_the_same_place(tmp_path, photos):
    """Cutout alone: the strong view is the weak one, but for the pixels that are hidden, which have no label."""
    options = made(tmp_path, photos, augmentations='cutout', magnitude=0.1, cutmix_probability=1.0)
    seen = batches(options, 6)
    weak, strong, label, box = (
        np.concatenate([batch[key] for batch in seen])
        for key in (common.WEAK_IMAGE, common.IMAGE, common.LABEL, common.MIX_BOX)
    )
    assert weak.shape == strong.shape == (12, 17, 33, 3) and label.shape == box.shape == (12, 17, 33, 1)
    assert set(np.unique(label)) == {0, 255}
    is_same = (weak == strong).all(axis=3, keepdims=True)
    assert is_same[label == 0].all() and not is_same[label == 255].all()
    assert 0 < box.mean() < 1 and box.any(axis=(1, 2, 3)).sum() > 6
    assert len({image.tobytes() for image in weak}) > 6  # crops and flips differ


def test_outside_of_small_images(tmp_path, photos):
    for path in photos.rglob('*.png'):
        Image.fromarray(dataset_files.pixels(9, 15)).save(path)
    batch = batches(made(tmp_path, photos, augmentations='gamma'), 1)[0]
    flipped = batch[common.LABEL][:, :, ::-1]
    for image, mirrored in zip(batch[common.LABEL][..., 0], flipped[..., 0], strict=True):
        inside = np.full((17, 33), 255)
        inside[:9, :15] = 0
        assert (image == inside).all() or (mirrored == inside).all()


def test_weak_view_has_no_other_colors(tmp_path, photos):
    """What keeps pixels in place, or follows classes, is left out; what moves pixels is kept."""
    settings = {'jitter_brightness': 1.0, 'rare_class_sampling': 1.0, 'cutmix_probability': 1.0}
    plain = AugmentOptions(1.0, 1.0, 0.0)
    expected = batches(made(tmp_path / 'a', photos, plain), 1)[0][common.WEAK_IMAGE]
    colored = batches(made(tmp_path / 'b', photos, plain.changed(**settings)), 1)[0][common.WEAK_IMAGE]
    np.testing.assert_array_equal(colored, expected)
    turned = batches(made(tmp_path / 'c', photos, plain.changed(vertical_flip_probability=1.0)), 1)[0]
    np.testing.assert_array_equal(turned[common.WEAK_IMAGE], expected[:, ::-1])


def test_order_follows_from_the_position(tmp_path, photos):
    options = made(tmp_path, photos)
    first, second = batches(options, 2), batches(options, 1, first_position=2)
    for key, values in second[0].items():
        np.testing.assert_array_equal(values, first[1][key], err_msg=key)
    names = [name for batch in [*first, *batches(options, 1, 4)] for name in batch[common.IMAGE_NAME]]
    assert sorted(names[:3]) == sorted(names[3:]) == [b'0', b'more/1', b'more/2']


def _gray(folder):
    np.save(folder / 'gray.npy', np.zeros((20, 40, 1), np.uint8))


def _torn(folder):
    (folder / '0.png').write_bytes((folder / '0.png').read_bytes()[:60])


def _small(folder):
    Image.fromarray(dataset_files.pixels(4, 40)).save(folder / 'more' / '2.png')


def _empty(folder):
    for path in folder.rglob('*.png'):
        path.unlink()


def _gone(folder):
    folder.rename(folder.with_name('elsewhere'))


@pytest.mark.parametrize(
    ('damage', 'parts'),
    [
        (_gray, ('directory=', "1 of 4 images in '", 'gray.npy', 'does not have the 3 channels')),
        (_torn, ('0.png',)),
        (_small, ('1 of 3', '2.png', '4 x 40', 'a quarter', 'crop_size=(17, 33)')),
        (_empty, ('no image', '1 .txt', 'directory')),
        (_gone, ('photos', 'does not exist')),
    ],
)
def test_bad_folders(tmp_path, photos, damage, parts):
    options = made(tmp_path, photos)
    damage(photos)
    with pytest.raises(DataError) as error:
        unlabeled_input.open_split(options, descriptor(options))
    assert not [part for part in parts if part not in str(error.value)], str(error.value)
    assert '\n' not in str(error.value) and 'split' not in str(error.value)
