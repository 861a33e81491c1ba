"""Images for 8-bit networks: which of a folder calibrate, in which sizes, and what is wrong with a folder.

Covers inference/resizing.py.
"""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from deeplab import common
from deeplab.inference import calibration_images
from deeplab.inference.calibration_images import CalibrationError, CalibrationImages
from deeplab.inference.network import InferenceNetwork
from deeplab.options import ModelOptions, PredictionOptions, ResizeOptions

MODEL = ModelOptions({common.OUTPUT_TYPE: 3}, crop_size=(5, 7))


def _network(batch_size=1, **changes):
    return InferenceNetwork(dataclasses.replace(MODEL, **changes), PredictionOptions(), batch_size)


def _write(folder, count, size=(5, 7)):
    """Writes images of one value each, which is their number in the order of their names."""
    folder.mkdir(exist_ok=True)
    for number in range(count):
        Image.fromarray(np.full((*size, 3), number, np.uint8)).save(folder / f'{number:03}.png')
    return str(folder)


def _numbers(batches):
    return [int(image[0, 0, 0]) for batch in batches for image in batch]


@pytest.mark.parametrize(
    ('count', 'calibrating', 'compared'),
    [(2, [1], [0]), (3, [0, 2], [1]), (5, [0, 1, 3, 4], [2]), (9, [0, 1, 3, 4, 6, 7, 8], [2, 5])],
)
def test_a_quarter_of_a_few_images_is_compared(count, calibrating, compared, tmp_path):
    images = CalibrationImages(_write(tmp_path / 'photos', count), _network())
    found = _numbers(images.calibrating()), _numbers(images.compared())
    assert found == (calibrating, compared)


def test_of_many_images_110_are_taken_from_the_whole_folder(tmp_path):
    images = CalibrationImages(_write(tmp_path / 'photos', 221), _network())
    calibrating, compared = _numbers(images.calibrating()), _numbers(images.compared())
    assert (len(calibrating), len(compared)) == (100, 10) and not set(calibrating) & set(compared)
    taken = sorted(calibrating + compared)
    assert (taken[0], taken[-1]) == (0, 220) and set(np.diff(taken)) == {2, 3}
    assert np.diff(compared).min() >= 15 and compared[0] >= 15  # not beside each other
    assert '100 images' in images.calibrating_words and '10 other images' in images.compared_words


def test_a_single_image_calibrates_and_is_compared(tmp_path):
    images = CalibrationImages(_write(tmp_path / 'photos', 1), _network())
    assert _numbers(images.calibrating()) == _numbers(images.compared()) == [0]
    assert 'the only image' in images.compared_words and 'which calibrates, too' in images.compared_words


def test_images_have_the_size_of_the_network(tmp_path):
    folder = _write(tmp_path / 'photos', 1, (3, 10))
    network = _network()
    (batch,) = CalibrationImages(folder, network).compared()
    assert batch.shape == (1, 5, 7, 3) and batch.dtype == np.float32
    assert np.all(batch[0, :3] == 0)
    np.testing.assert_array_equal(batch[0, 3:], np.broadcast_to(network.mean_pixel, (2, 7, 3)))
    resized = dataclasses.replace(network, resize=ResizeOptions(min_value=2, max_value=6))
    (batch,) = CalibrationImages(folder, resized).compared()
    assert np.all(batch[0, :2, :6] == 0)
    assert np.all(batch[0, 2:] == network.mean_pixel) and np.all(batch[0, :, 6:] == network.mean_pixel)


def test_of_large_images_windows_all_over_them_are_taken(tmp_path):
    (tmp_path / 'photos').mkdir()
    pixels = np.zeros((30, 40, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(30)[:, np.newaxis], np.arange(40)
    for number in range(40):
        Image.fromarray(pixels).save(tmp_path / 'photos' / f'{number}.png')
    images = CalibrationImages(str(tmp_path / 'photos'), _network())
    windows = np.concatenate([*images.calibrating()])
    np.testing.assert_array_equal(windows, np.concatenate([*images.calibrating()]))
    np.testing.assert_array_equal(windows[:, :, 0, 0] - windows[:, :1, 0, 0], [range(5)] * len(windows))
    assert np.ptp(windows[:, 0, 0, 0]) > 20 and np.ptp(windows[:, 0, 0, 1]) > 28 and windows[..., 0].max() > 26


def test_the_last_batch_is_filled_up(tmp_path):
    images = CalibrationImages(_write(tmp_path / 'photos', 5), _network(3))
    batches = [*images.calibrating()]
    assert [len(batch) for batch in batches] == [3, 3] and _numbers(batches) == [0, 1, 3, 4, 0, 1]


def test_the_digest_follows_the_bytes_of_the_images(tmp_path):
    network = _network()
    digests = [CalibrationImages(_write(tmp_path / name, 3), network).digest for name in ('a', 'b')]
    assert digests[0] == digests[1]
    Image.new('RGB', (7, 5), 'red').save(tmp_path / 'b' / '001.png')
    assert CalibrationImages(str(tmp_path / 'b'), network).digest != digests[0]


def test_the_progress_of_a_long_calibration_is_logged(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(calibration_images, '_LOGGED_SECONDS', -1)
    with caplog.at_level('INFO'):
        list(CalibrationImages(_write(tmp_path / 'photos', 3), _network()).calibrating())
    assert [message.partition(',')[0] for message in caplog.messages] == [
        'Calibrated with 1 of 2 images',
        'Calibrated with 2 of 2 images',
    ]


def test_a_folder_without_images(tmp_path):
    (tmp_path / 'notes.txt').write_text('no image')
    for folder in (tmp_path, tmp_path / 'missing'):
        with pytest.raises(CalibrationError, match=rf'calibration_dir=.{folder}.*no image'):
            CalibrationImages(str(folder), _network())


def test_an_image_that_the_network_cannot_take(tmp_path):
    folder = _write(tmp_path / 'photos', 3)
    with pytest.raises(CalibrationError, match=r'000\.png.*3 channels, but the network expects 4'):
        list(CalibrationImages(folder, _network(input_channels=4)).calibrating())
    (tmp_path / 'photos' / '001.png').write_bytes(b'no image')
    images = CalibrationImages(folder, _network())
    assert len(list(images.calibrating())) == 2
    with pytest.raises(CalibrationError, match=r'calibration_dir=.*001\.png.*not an image'):
        images.compared()
    (tmp_path / 'photos' / '001.png').unlink()
    (tmp_path / 'photos' / '001.png').symlink_to('nowhere')
    with pytest.raises(CalibrationError, match=r'001\.png.*No such file'):
        CalibrationImages(folder, _network())
