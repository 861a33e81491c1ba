"""Many files at a time: order, bounds, errors."""

import json
import re
import threading
import time
import types

import numpy as np
import pytest

from deeplab.errors import DataError
from deeplab.inference import pipeline, videos
from deeplab.inference.inputs import InputFile


class FakePredictor:
    """Reads an image of as many pixels as its name says."""

    resizes = False
    source = 'no training'

    def __init__(self):
        self.batches = []
        self.read_ahead = 0

    def read(self, image):
        return image

    def read_file(self, path):
        self.read_ahead += 1
        if path == 'bad':
            raise DataError('it is empty')
        return np.zeros((int(path), 1, 3), np.uint8)

    def bytes_of_file(self, path):
        return 0 if path == 'bad' else 3 * int(path)

    def predict(self, images, with_confidence):
        self.batches.append(len(images))
        if images and len(images[0]) == 13:
            raise DataError('it cannot be predicted')
        return [FakePrediction(image) for image in images]


class FakePrediction:
    nbytes = 0

    def __init__(self, image):
        self.image = self.labels = image


def items(*names):
    return [InputFile(name, name, name.endswith('.mp4')) for name in names]


def test_images_of_one_size_are_batched_and_bad_ones_listed():
    predictor, written = FakePredictor(), []
    names = ['5', '5', '5', 'bad', '7', '13', '5']
    done = pipeline.run(predictor, items(*names), lambda item, number, _: written.append(item.path), 2, False)
    assert predictor.batches == [2, 1, 1, 1, 1]
    assert sorted(written) == ['5', '5', '5', '5', '7'] and done.images == 5
    assert [failure.path for failure in done.failures] == ['bad', '13'] and 'empty' in done.failures[0].reason
    assert 0 < done.seconds < 60


@pytest.mark.parametrize(
    ('side', 'resizes', 'expected'), [(5, False, ['11']), (6, False, []), (None, False, []), (5, True, [])]
)
def test_an_image_of_another_scale_than_in_training_is_warned_about_once(tmp_path, caplog, side, resizes, expected):
    records = {'digest': 'a'} if side is None else {'largest_side': side}
    (tmp_path / 'run.json').write_text(json.dumps({'format': 1, 'runs': [{'command': [], 'records': records}]}))
    predictor = FakePredictor()
    predictor.source, predictor.resizes = str(tmp_path / 'model.ckpt-1'), resizes
    pipeline.run(predictor, items('10', 'bad', '11', '12'), lambda *_: None, 1, False)
    found = [re.search(r'^(\d+) has .* 5\. .*max_value=5', text) for text in caplog.messages]
    assert [match[1] for match in found] == expected


def test_a_part_without_a_readable_image_takes_a_millisecond(monkeypatch):
    monkeypatch.setattr(pipeline, 'time', types.SimpleNamespace(monotonic=lambda: 5.0))
    done = pipeline.run(FakePredictor(), items('bad'), lambda *given: None, 2, False)
    assert (done.images, round(done.seconds, 3)) == (0, 0.001)


def test_frames_of_videos(monkeypatch):
    def frames(path):
        for i in range(9):
            yield np.full((2, 2, 3), i, np.uint8)
        raise DataError('it is damaged after 9 frames')

    monkeypatch.setattr(videos, 'frames', frames)
    written = []
    done = pipeline.run(
        FakePredictor(),
        items('4', 'clip.mp4', '6'),
        lambda item, number, _: written.append((item.path, number)),
        4,
        False,
    )
    assert set(written) == {('4', None), ('6', None), *(('clip.mp4', i) for i in range(9))}
    assert done.images == 11 and [failure.path for failure in done.failures] == ['clip.mp4']


def test_an_error_of_reading_frames_is_raised(monkeypatch):
    def frames(path):
        yield np.zeros((2, 2, 3), np.uint8)
        raise MemoryError

    monkeypatch.setattr(videos, 'frames', frames)
    with pytest.raises(MemoryError):
        pipeline.run(FakePredictor(), items('clip.mp4'), lambda *_: None, 1, False)


def test_a_file_that_cannot_be_written_ends_the_run():
    def write(*_):
        raise DataError('the disk is full')

    predictor = FakePredictor()
    before = threading.active_count()
    with pytest.raises(DataError, match='full'):
        pipeline.run(predictor, items(*['5'] * 500), write, 1, False)
    assert predictor.read_ahead < 100
    assert threading.active_count() == before


def test_large_predictions_are_written_one_at_a_time(monkeypatch):
    monkeypatch.setattr(FakePrediction, 'nbytes', 1 << 40)
    monkeypatch.setattr(pipeline, '_threads', lambda: 2)
    writing, most = [], []

    def write(*_):
        writing.append(1)
        most.append(len(writing))
        time.sleep(0.005)
        writing.pop()

    pipeline.run(FakePredictor(), items(*['9'] * 10), write, 1, False)
    assert most == [1] * 10


def test_large_images_are_read_one_at_a_time(monkeypatch):
    """The next one when the one before has been predicted."""
    monkeypatch.setattr(pipeline, '_MOST_BYTES', 3000)
    predictor = FakePredictor()
    ahead = []
    predict = predictor.predict
    predictor.predict = lambda *given: ahead.append(predictor.read_ahead - len(ahead)) or predict(*given)
    pipeline.run(predictor, items(*['900'] * 20), lambda *_: None, 1, False)
    assert set(ahead) == {1} and len(ahead) == 20
