"""Archives for evaluation servers. Covers evaluation/further_pictures.py."""

import io
import logging
import os
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from deeplab.datasets import descriptor
from deeplab.errors import DataError, OptionError
from deeplab.evaluation import submission
from deeplab.evaluation.further_pictures import FurtherPictures, Shown
from deeplab.options import SUBMISSIONS

VOC, CITYSCAPES = descriptor.load('pascal_voc_seg'), descriptor.load('cityscapes')
SIZES = np.array([(3, 4), (5, 2)])
VOC_NAMES, STREETS = ('2008_000001', '2008_000006'), ('berlin_000000_000019', 'bonn_000001_000019')


def shown(number, name, classes=19):
    ids = np.arange(np.prod(SIZES[number])).reshape(SIZES[number]) % classes
    return Shown(number, name.encode(), name, np.zeros((*ids.shape, 3), np.uint8), ids.astype(np.int32), None, None)


def submitted(folder, server, names):
    """Writes a picture for each name and the archive; returns the submission."""
    made = submission.Submission(server, str(folder), VOC if server == 'voc' else CITYSCAPES, SIZES)
    for number, name in enumerate(names):
        made.write(shown(number, name))
    made.finish()
    return made


def test_all_servers_have_a_name():
    assert tuple(submission.SERVERS) == SUBMISSIONS
    assert submission.SERVERS['cityscapes'].ids == tuple(CITYSCAPES.eval_ids)
    assert all(server.names.fullmatch(server.example) for server in submission.SERVERS.values())


def test_voc_gets_indexed_pictures_in_the_folder_of_its_competition(tmp_path):
    made = submitted(tmp_path, 'voc', VOC_NAMES)
    assert made.path == str(tmp_path / 'voc_submission.tar.gz')
    with tarfile.open(made.path) as archive:
        folder = 'results/VOC2012/Segmentation/comp6_test_cls'
        assert archive.getnames() == [f'{folder}/{name}.png' for name in VOC_NAMES]
        picture = Image.open(archive.extractfile(f'{folder}/{VOC_NAMES[1]}.png'))
        assert picture.mode == 'P' and picture.getpalette()[:6] == [0, 0, 0, 128, 0, 0]
        np.testing.assert_array_equal(np.asarray(picture), shown(1, '').ids)


def test_cityscapes_gets_label_ids(tmp_path):
    made = submitted(tmp_path, 'cityscapes', STREETS)
    with zipfile.ZipFile(made.path) as archive:
        assert archive.namelist() == [f'{name}.png' for name in STREETS]
        picture = Image.open(io.BytesIO(archive.read(f'{STREETS[0]}.png')))
    assert picture.mode == 'L'
    np.testing.assert_array_equal(np.asarray(picture), np.array(CITYSCAPES.eval_ids)[shown(0, '').ids])


def test_what_the_server_would_refuse_is_not_put_in_place(tmp_path):
    made = submission.Submission('voc', str(tmp_path), VOC, SIZES[::-1])
    for number, name in enumerate(VOC_NAMES):
        made.write(shown(number, name))
    with pytest.raises(DataError, match='sizes that differ from the images: 2008_000001.png .3x4 for 5x2.'):
        made.finish()
    assert os.listdir(tmp_path) == ['voc_submission']


@pytest.mark.parametrize(
    ('server', 'names', 'said'),
    [
        ('voc', ['2008_000001', 'photo'], 'not like 2008_000001: photo'),
        ('voc', ['evil', 'evil'], 'not like 2008_000001: evil; several images of one name: evil'),
        ('cityscapes', ['bonn_000001_000019', 'bonn_000001_000019_leftImg8bit'], 'one name: bonn_000001_000019'),
    ],
)
def test_names_that_the_server_would_refuse_are_found_before_anything_is_predicted(server, names, said):
    with pytest.raises(DataError, match=said):
        submission.check(server, VOC if server == 'voc' else CITYSCAPES, 'test', names, ())


def png(ids, mode='L'):
    content = io.BytesIO()
    Image.fromarray(ids).convert(mode).save(content, 'PNG')
    return content.getvalue()


def test_every_wrong_picture_is_named(tmp_path):
    server = submission.SERVERS['cityscapes']
    good, path = np.full((3, 4), 7, np.uint8), tmp_path / 'archive.zip'
    pictures = {
        'good.png': png(good),
        'small.png': png(good[:2]),
        'train_ids.png': png(good - 4),
        'colored.png': png(good, 'RGB'),
        'text.png': b'text',
        'other.png': png(good),
    }
    with zipfile.ZipFile(path, 'w') as archive:
        for name, content in pictures.items():
            archive.writestr(name, content)
        with pytest.warns(UserWarning, match='Duplicate'):
            archive.writestr('good.png', png(good))
    names = [*(name for name in pictures if name != 'other.png'), 'absent.png']
    found = ' | '.join(submission.problems(str(path), server, dict.fromkeys(names, (3, 4))))
    for said in (
        'small.png (2x4 for 3x4)', 'train_ids.png (3)', 'ids in 8 bits: colored.png', 'cannot be read: text.png',
        'no image: other.png', 'twice: good.png', 'missing pictures: absent.png',
    ):  # fmt: skip
        assert said in found
    assert submission.problems(str(path), server, dict.fromkeys(['good.png'], (3, 4)))[0].startswith('pictures of no')


def test_what_can_be_known_is_checked_before_anything_is_predicted(caplog):
    train_ids = descriptor.DatasetDescriptor('streets', 19, splits={'test': 3})
    with pytest.raises(
        OptionError, match="submission='cityscapes'.*'streets' gives the ids 0, 1, 2 and 10 more.*eval_ids"
    ):
        submission.check('cityscapes', train_ids, 'test', [b'a'] * 3, ())
    with pytest.raises(DataError, match='1 record cannot be read: record 7'):
        submission.check('voc', VOC, 'val', [], ['record 7'])
    with pytest.raises(DataError, match='not like 2008_000001: photo; several images of one name: 2007_000033'):
        submission.check('voc', VOC, 'val', [b'photo', b'a/2007_000033.jpg', b'2007_000033'], ())
    images = [f'2007_{number:06d}'.encode() for number in range(1449)]
    with caplog.at_level(logging.WARNING):
        submission.check('voc', VOC, 'val', images, ())
        assert not caplog.records
        submission.check('voc', VOC, 'val', images[1:], ())
    assert 'have 1448 images, the split itself has 1449' in caplog.text


def test_further_pictures_of_an_image_and_of_all(tmp_path):
    kinds = ('overlay', 'confidence', 'errors', 'legend')
    pictures = FurtherPictures(str(tmp_path), kinds, VOC, VOC.palette, 1.0)
    one = shown(0, 'a', 2)
    one = one._replace(truth=np.ones_like(one.ids), confidence=np.full(one.ids.shape, 0.5, np.float32))
    paths = [*pictures.write(one), *pictures.finish()]
    assert [os.path.basename(path) for path in paths] == [*(f'000000_{kind}.png' for kind in kinds), 'legend.png']
    overlay, confidence, errors, of_image, of_all = (np.asarray(Image.open(path)) for path in paths)
    np.testing.assert_array_equal(overlay, VOC.palette[one.ids])
    assert (confidence == 128).all()
    assert len(np.unique(errors.reshape(-1, 3), axis=0)) == 2
    assert of_image.shape[0] < of_all.shape[0]  # two classes, and all
