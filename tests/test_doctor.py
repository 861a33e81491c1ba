"""Tests for doctor.py on small data sets with one fault each.

Covers diagnosis/sources.py, diagnosis/measurement.py, diagnosis/findings.py, diagnosis/file_rules.py,
diagnosis/label_rules.py, diagnosis/split_rules.py, diagnosis/suggestion.py and options/doctor.py.
"""

import io
import json
import shlex

import numpy as np
import pytest
from PIL import Image

from deeplab import cli, doctor
from deeplab.datasets import example
from deeplab.diagnosis import measurement, suggestion
from deeplab.diagnosis.findings import SEVERITIES
from deeplab.errors import DataError, OptionError
from deeplab.options import DoctorOptions
from tests.datasets import files

SIZE = (40, 48)
SPLITS = {'train': 4, 'val': 2}
IN_RECORDS = 'in records'
IN_FILES = 'in files'


def _mask():
    """[40, 48] ids 0 to 2 and a border of 255."""
    ids = np.zeros(SIZE, np.uint8)
    ids[:, 24:] = 1
    ids[20:] = 2
    ids[:2] = 255
    return ids


def _clean():
    """(image, mask) files of each split."""
    return {
        split: [[files.jpeg(files.pixels(*SIZE, seed=seed + 10 * len(split))), files.png(_mask())] for seed in range(n)]
        for split, n in SPLITS.items()
    }


def _masks(data, change, splits=SPLITS):
    """Changes every mask: `change` from ids to a file."""
    for split in splits:
        for sample in data[split]:
            sample[1] = change(_mask())


def _mode(mode, image_format):
    image = Image.fromarray(files.pixels(*SIZE, seed=99)).convert(mode)
    return files.encoded(image, image_format)


def _smooth(ids):
    """As a program saves a mask that it has scaled up smoothly."""
    small = Image.fromarray(np.where(ids == 255, 0, ids * 60).astype(np.uint8)).resize((12, 10))
    return files.png(np.asarray(small.resize((48, 40), Image.Resampling.BILINEAR)))


def _replace(split, number, place, content):
    def change(data):
        data[split][number][place] = content

    return change


def _near_copy(data):
    """An image of train, darker and compressed again."""
    image = Image.open(io.BytesIO(data['train'][0][0]))
    stream = io.BytesIO()
    image.point([value * 3 // 4 for value in range(256)] * 3).save(stream, 'JPEG', quality=60)
    data['val'][0][0] = stream.getvalue()


def _write(folder, data, kind):
    """Writes a data set as records or files; returns its folder."""
    for split, samples in data.items():
        named = [(f'{split}{number}', *sample) for number, sample in enumerate(samples)]
        if kind == IN_RECORDS:
            records = [example.encode(image, 'jpeg', name, *SIZE, 3, mask) for name, image, mask in named]
            files.write_shard(folder / f'{split}-00000-of-00001.tfrecord', records)
            continue
        for inner in ('images', 'masks', 'lists'):
            (folder / inner).mkdir(parents=True, exist_ok=True)
        for name, image, mask in named:
            (folder / 'images' / f'{name}.{"jpg" if image[:2] == bytes([255, 216]) else "png"}').write_bytes(image)
            if mask is not None:
                (folder / 'masks' / f'{name}.png').write_bytes(mask)
        # Blank lines, other line ends and extensions are accepted.
        (folder / 'lists' / f'{split}.txt').write_bytes(b'\r\n\n'.join(f'{name}.jpg'.encode() for name, *_ in named))
    return folder


def _examine(folder, num_classes=3, **more):
    return doctor.run(DoctorOptions(str(folder), num_classes=num_classes, output=str(folder / 'found.json'), **more))


def _rules(result, *severities):
    return {finding.rule for finding in result.findings if finding.severity in severities}


@pytest.mark.parametrize('kind', [IN_RECORDS, IN_FILES])
def test_clean_data_set(tmp_path, kind):
    result = _examine(_write(tmp_path, _clean(), kind))
    assert not _rules(result, 'error', 'warning')
    assert result.status == 0
    assert result.report.splitlines()[-1].startswith('No faults found (0 errors, 0 warnings')
    content = json.loads((tmp_path / 'found.json').read_text())
    assert content['splits']['train']['images'] == 4
    assert content['splits']['val']['sizes'] == [[40, 48, 2]]
    # Three classes of 432, 432 and 960 pixels in each image.
    assert [row['share'] for row in content['classes']] == pytest.approx([432 / 1824, 432 / 1824, 960 / 1824])
    assert [row['label_weight'] for row in content['classes']] == pytest.approx([1, 1, 0.45])


FAULTS = {
    'corrupt': ('error', _replace('train', 1, 0, files.jpeg(files.pixels(*SIZE))[:-200])),
    'no_mask': ('error', _replace('val', 0, 1, None)),
    'color_mask': ('error', lambda data: _masks(data, lambda ids: files.png(np.stack([ids] * 3, axis=2)))),
    'jpeg_mask': ('error', _replace('train', 0, 1, files.jpeg(_mask()))),
    'palette': ('error', lambda data: _masks(data, files.palette_png)),
    'sixteen_bit_mask': ('error', _replace('train', 0, 1, files.deep_png(_mask().astype(np.uint16)[..., np.newaxis]))),
    'large_ids': ('error', _replace('train', 0, 1, files.deep_png(np.full((*SIZE, 1), 300, np.uint16)))),
    'size': ('error', _replace('train', 0, 1, files.png(_mask()[:-1]))),
    'turned': (
        'error',
        _replace('train', 0, 0, files.with_exif(files.jpeg(files.pixels(48, 40, seed=77)), files.exif(6))),
    ),
    'oriented': (
        'warning',
        _replace('train', 0, 0, files.with_exif(files.jpeg(files.pixels(*SIZE, seed=77)), files.exif(3))),
    ),
    'all_ignored': ('warning', _replace('train', 0, 1, files.png(np.full(SIZE, 255, np.uint8)))),
    'cmyk': ('warning', _replace('train', 0, 0, _mode('CMYK', 'JPEG'))),
    'alpha': ('note', _replace('train', 0, 0, _mode('RGBA', 'PNG'))),
    'gray': ('note', _replace('train', 0, 0, _mode('L', 'JPEG'))),
    'sixteen_bits': ('note', _replace('train', 0, 0, files.deep_png(np.ones((*SIZE, 3), np.uint16)))),
    'zero_and_255': ('error', lambda data: _masks(data, lambda ids: files.png(np.uint8(255) * (ids == 2)))),
    'interpolated': ('error', lambda data: _masks(data, _smooth)),
    'ids': ('error', _replace('train', 0, 1, files.png(np.where(_mask() == 2, 7, _mask()).astype(np.uint8)))),
    'histogram': ('error', lambda data: _masks(data, lambda ids: files.png(np.full(SIZE, 255, np.uint8)))),
    'missing_classes': (
        'warning',
        lambda data: _masks(data, lambda ids: files.png(np.where(ids == 1, 255, ids).astype(np.uint8))),
    ),
    'only_evaluated': (
        'error',
        lambda data: _masks(data, lambda ids: files.png(np.where(ids == 1, 0, ids).astype(np.uint8)), ['train']),
    ),
    'nothing_ignored': ('note', lambda data: _masks(data, lambda ids: files.png(np.where(ids == 255, 0, ids)))),
    'overlap': ('error', lambda data: data['val'].append(data['train'][2])),
    'similar': ('warning', _near_copy),
    'repeated': ('warning', lambda data: data['train'].append(data['train'][0])),
    'no_evaluation': ('warning', lambda data: data.pop('val')),
    'empty': ('error', lambda data: data['val'].clear()),
}


@pytest.mark.parametrize('rule', FAULTS)
def test_names_the_fault_and_no_other(tmp_path, rule):
    severity, change = FAULTS[rule]
    data = _clean()
    change(data)
    result = _examine(_write(tmp_path, data, IN_RECORDS))
    assert rule in _rules(result, severity)
    # Pixels that are ignored everywhere are also ignored in each image.
    also = {'histogram': {'all_ignored'}}.get(rule, set())
    others = {f.rule for f in result.findings if f.severity != 'note'} - {rule}
    assert others == also
    assert result.status == (severity == 'error')
    assert result.findings == tuple(sorted(result.findings, key=lambda f: SEVERITIES.index(f.severity)))


def test_builders_take_palettes_and_rotate_so_files_are_no_fault(tmp_path):
    data = _clean()
    _masks(data, files.palette_png)
    FAULTS['turned'][1](data)
    assert not _rules(_examine(_write(tmp_path, data, IN_FILES)), 'error', 'warning')


def test_listed_name_without_an_image(tmp_path):
    folder = _write(tmp_path, _clean(), IN_FILES)
    (folder / 'images/train2.jpg').unlink()
    found = [finding for finding in _examine(folder).findings if finding.rule == 'no_image']
    assert [finding.cases for finding in found] == [('train2',)]
    assert found[0].what.startswith('1 of 4 samples')


def test_incomplete_shards(tmp_path):
    folder = _write(tmp_path, _clean(), IN_RECORDS)
    (folder / 'val-00000-of-00001.tfrecord').rename(folder / 'val-00000-of-00002.tfrecord')
    found = _examine(folder)
    assert 'shards' in _rules(found, 'error')
    assert 'val-00001-of-00002.tfrecord' in found.report


@pytest.mark.parametrize(
    ('ids', 'advice'), [((1, 2, 3), 'subtract 1'), ((0, 85, 170), 'gray level'), ((0, 1, 2), None)]
)
def test_without_a_number_of_classes_the_ids_tell(tmp_path, ids, advice):
    data = _clean()
    _masks(
        data, lambda mask: files.png(np.where(mask == 255, 255, np.array([*ids, *[0] * 253])[mask]).astype(np.uint8))
    )
    result = _examine(_write(tmp_path, data, IN_RECORDS), num_classes=None)
    assert ('ids' in _rules(result, 'error')) == (advice is not None)
    assert (advice or 'assumed from the ids') in result.report


def test_uneven_and_thin_classes(tmp_path):
    data = _clean()
    line = _mask()
    line[line != 255] = 0
    line[20, 5:9] = 1
    line[22, 5:9] = 2
    _masks(data, lambda ids: files.png(line))
    result = _examine(_write(tmp_path, data, IN_RECORDS))
    assert _rules(result, 'note') == {'uneven', 'thin'}
    assert '--label_weights=auto' in result.suggestion.lines[1]


def test_splits_of_folders(tmp_path):
    """images/train beside masks/train, and train/images beside train/masks."""
    for number, (outer, inner) in enumerate(
        (('images', 'train'), ('masks', 'train'), ('val', 'images'), ('val', 'masks'))
    ):
        content = files.png(_mask()) if 'masks' in (outer, inner) else files.jpeg(files.pixels(*SIZE, seed=number))
        folder = tmp_path / ('one' if inner == 'train' else 'other') / outer / inner
        folder.mkdir(parents=True)
        (folder / ('a.png' if 'masks' in (outer, inner) else 'a.JPG')).write_bytes(content)
    assert 'Split train: 1 images in files' in _examine(tmp_path / 'one').report
    assert 'Split val: 1 images in files' in _examine(tmp_path / 'other').report


def test_bad_input(tmp_path):
    (tmp_path / 'notes.txt').write_text('')
    with pytest.raises(DataError, match=r'(?s)neither shards.*1 \.txt'):
        _examine(tmp_path)
    with pytest.raises(DataError, match='cannot be read'):
        doctor.run(DoctorOptions(str(tmp_path / 'none'), output=str(tmp_path / 'a.json')))
    with pytest.raises(OptionError, match='output'):
        doctor.run(DoctorOptions(str(tmp_path), output=str(tmp_path / 'notes.txt' / 'a.json')))
    with pytest.raises(OptionError, match='image_folder.*mask_folder'):
        _examine(tmp_path, image_folder=str(tmp_path))
    with pytest.raises(OptionError, match='num_classes'):
        DoctorOptions('records', num_classes=0)


def test_thin_and_between_pixels():
    ids = np.array([[0, 1, 2, 2], [0, 0, 2, 2], [0, 0, 2, 2]], np.uint8)
    assert measurement.thin_pixels(ids, 2)[:3].tolist() == [1, 1, 0]
    assert measurement.between_pixels(ids)[:3].tolist() == [0, 1, 0]


def test_suggestion_follows_the_memory(tmp_path, monkeypatch):
    folder = _write(tmp_path, _clean(), IN_FILES)
    monkeypatch.setattr(suggestion.memory, 'free', lambda: 1 << 40)
    large = _examine(folder).suggestion
    assert (large.crop_size, large.eval_crop_size) == ((49, 49), (49, 49))
    assert large.batch_size == 4  # images in train
    assert large.learning_rate == pytest.approx(0.0018)
    assert '--list_folder=' in large.lines[0]
    assert '{"num_classes": 3, "ignore_label": 255} to dataset.json' in _examine(folder).report
    assert '--fine_tune_batch_norm=false' in large.lines[2]
    for line in large.lines:
        _, program, *words = shlex.split(line)
        cli.options_of(program, [word for word in words if 'dataset.json' not in word])  # the flags exist
    monkeypatch.setattr(suggestion.memory, 'free', lambda: 0)
    assert _examine(folder).suggestion.batch_size == 1
